"""`ilyama reset` says what it will remove, and removes just that."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from ilyama_resources.settings import load_settings
from ilyama_service.cli.app import app


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A home, and a warehouse elsewhere."""
    home, warehouse = tmp_path / "home", tmp_path / "tables"
    for name, path in (("HOME", home), ("WAREHOUSE", warehouse)):
        path.mkdir()
        monkeypatch.setenv(f"ILYAMA_{name}", str(path))
    load_settings().make_directories()
    return home, warehouse


def test_every_directory_is_named_before_it_goes(places: tuple[Path, Path]) -> None:
    told = CliRunner().invoke(app, ["reset"], input="n\n").output
    assert all(str(path) in told for path in places)
    assert all(path.exists() for path in places)


def test_home_and_warehouse_go(places: tuple[Path, Path]) -> None:
    assert CliRunner().invoke(app, ["reset", "--yes"]).exit_code == 0
    assert not any(path.exists() for path in places)
    assert "nothing to remove" in CliRunner().invoke(app, ["reset", "--yes"]).output


def test_what_is_left_of_a_home_goes_too(places: tuple[Path, Path]) -> None:
    home, warehouse = places
    (home / "run").rmdir()
    assert CliRunner().invoke(app, ["reset", "--yes"]).exit_code == 0
    assert not home.exists()
    assert not warehouse.exists()


def test_what_others_have_put_into_the_home_stays(places: tuple[Path, Path]) -> None:
    home, warehouse = places
    (home / "notes.txt").write_text("mine")
    assert CliRunner().invoke(app, ["reset", "--yes"]).exit_code == 0
    assert [path.name for path in home.iterdir()] == ["notes.txt"]
    assert not warehouse.exists()
