from pathlib import Path

import pytest

from ilyama_resources.embedded.java import JavaError, find_java


@pytest.fixture(autouse=True)
def _no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))


def install_java(directory: Path, version: str) -> Path:
    java = directory / "java"
    directory.mkdir(parents=True)
    java.write_text(f"""#!/bin/sh\necho 'openjdk version "{version}" 2025-04-15' >&2\n""")
    java.chmod(0o755)
    return java


def test_the_java_on_the_path_is_found(tmp_path: Path) -> None:
    java = install_java(tmp_path / "path", "17.0.15")
    assert find_java() == java


def test_java_home_goes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_java(tmp_path / "path", "17.0.15")
    chosen = install_java(tmp_path / "jdk" / "bin", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert find_java() == chosen


def test_a_missing_java_gets_a_sentence() -> None:
    with pytest.raises(JavaError, match=r"^Java is missing: run `make setup`"):
        find_java()


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22", "16.0.2"])
def test_an_old_java_gets_a_sentence(tmp_path: Path, version: str) -> None:
    install_java(tmp_path / "path", version)
    with pytest.raises(JavaError, match=r"is older than Java 17: set JAVA_HOME"):
        find_java()
