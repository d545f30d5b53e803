"""Which browser the tests of the user interface drive."""

from pathlib import Path

import pytest

from deploy.setup.browser import find_browser


@pytest.fixture(autouse=True)
def _nothing_else_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


def install(directory: Path, name: str, *, says: str, exit_code: int = 0) -> Path:
    """Put a program there that tells its version like a browser."""
    program = directory / name
    program.write_text(f"#!/bin/sh\necho '{says}'\nexit {exit_code}\n")
    program.chmod(0o755)
    return program


def test_there_may_be_no_browser() -> None:
    assert find_browser() is None


def test_a_browser_of_the_system_is_found(tmp_path: Path) -> None:
    chrome = install(tmp_path, "google-chrome", says="Google Chrome 150.0")
    assert find_browser() == chrome


def test_a_snap_is_passed_over(tmp_path: Path) -> None:
    install(tmp_path, "chromium", says="Chromium 150.0 snap")
    assert find_browser() is None
    chrome = install(tmp_path, "google-chrome", says="Google Chrome 150.0")
    assert find_browser() == chrome


def test_a_stub_that_asks_for_a_snap_is_passed_over(tmp_path: Path) -> None:
    install(tmp_path, "chromium-browser", says="Command requires the snap", exit_code=1)
    assert find_browser() is None
