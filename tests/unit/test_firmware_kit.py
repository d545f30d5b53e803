"""The distribution for firmware: the protocol with its plugin, and nothing of the platform."""

import re
import shutil
import subprocess
import tomllib
import venv
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest

from ilyama_resources.settings import REPOSITORY

KIT = REPOSITORY / "deploy" / "kit"
OF_PYTEST = ("pytest", "iniconfig", "packaging", "pluggy", "pygments")


def _told(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text())


KIT_TOLD, PLATFORM_TOLD = (_told(where / "pyproject.toml") for where in (KIT, REPOSITORY))
PROJECT, SETUPTOOLS = KIT_TOLD["project"], KIT_TOLD["tool"]["setuptools"]


def test_it_is_the_protocol_of_the_platform() -> None:
    platform = PLATFORM_TOLD["project"]
    told = ("version", "requires-python", "entry-points")
    assert {name: PROJECT[name] for name in told} == {name: platform[name] for name in told}
    assert set(PROJECT["dependencies"]) < set(platform["dependencies"])


def test_it_has_every_package_and_file_of_the_protocol() -> None:
    root = (KIT / SETUPTOOLS["package-dir"]["ilyama_protocol"]).resolve()
    files = [file for file in root.rglob("*") if file.is_file() and file.suffix != ".pyc"]
    package_of = {file: ".".join(file.parent.relative_to(root.parent).parts) for file in files}
    patterns = SETUPTOOLS["package-data"]

    assert sorted(set(package_of.values())) == sorted(SETUPTOOLS["packages"])
    assert [
        file
        for file in files
        if not any(file.match(p) for p in ("*.py", *patterns.get(package_of[file], ())))
    ] == []


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the kit, what it depends on, and pytest."""
    home = tmp_path_factory.mktemp("firmware") / "venv"
    venv.create(home, symlinks=True)
    [packages] = home.glob("lib/python*/site-packages")
    names = [re.split(r"[^\w-]", dependency)[0] for dependency in PROJECT["dependencies"]]
    for name in (*names, *OF_PYTEST):
        installed = distribution(name)
        for top in {file.parts[0] for file in installed.files or ()} - {"..", "__pycache__"}:
            (packages / top).symlink_to(str(installed.locate_file(top)))
    _install_kit(packages)
    return home / "bin" / "python"


def _install_kit(packages: Path) -> None:
    """Put the kit where pip would, since pip would ask the network for setuptools."""
    (packages / "ilyama_protocol").symlink_to(REPOSITORY / "ilyama_protocol")
    told = packages / f"ilyama_protocol-{PROJECT['version']}.dist-info"
    told.mkdir()
    (told / "METADATA").write_text(f"Name: {PROJECT['name']}\nVersion: {PROJECT['version']}\n")
    [(name, module)] = PROJECT["entry-points"]["pytest11"].items()
    (told / "entry_points.txt").write_text(f"[pytest11]\n{name} = {module}\n")


def test_it_works_without_the_packages_of_the_platform(python: Path, tmp_path: Path) -> None:
    example = shutil.copytree(REPOSITORY / "docs" / "examples" / "firmware", tmp_path / "firmware")
    (example / "test_lightness.py").write_text(
        "import importlib.util\n\n\ndef test_nothing_of_the_platform_is_here(ilyama_check):\n"
        "    for name in ('dagster', 'pyspark', 'pydantic', 'sqlalchemy', 'ilyama_resources'):\n"
        "        assert importlib.util.find_spec(name) is None\n"
    )
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "."]
    ran = subprocess.run(command, cwd=example, env={}, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_page_tells_how_to_install_it() -> None:
    page = (REPOSITORY / "docs" / "firmware.md").read_text(encoding="utf-8")
    assert "deploy/kit" in page
    assert [name for name in PROJECT["dependencies"] if re.split(r"\W", name)[0] not in page] == []
