"""The virtual environment with the locked packages and the project itself."""

import hashlib
import json
import platform
import sys
from pathlib import Path
from typing import Final

from deploy.setup.report import REPOSITORY, run, step

VENV: Final = REPOSITORY / ".venv"
LOCK: Final = REPOSITORY / "requirements.lock"
PROJECT: Final = REPOSITORY / "pyproject.toml"

_STAMP: Final = VENV / "ilyama-setup.json"
_PIP: Final = (VENV / "bin" / "python", "-m", "pip", "--disable-pip-version-check")


def ensure_packages() -> None:
    """Make the venv and install what the lock names, unless that was done before."""
    wanted, present = _wanted(), _present()
    if present == wanted:
        return
    # An installation that is interrupted leaves no stamp, and the next run starts afresh.
    _STAMP.unlink(missing_ok=True)
    if present.get("place") != wanted["place"]:
        with step(f"Making .venv with Python {platform.python_version()}"):
            _make_venv()
    with step("Installing the Python packages (some minutes the first time)"):
        _install()
    _STAMP.write_text(json.dumps(wanted))


def _make_venv() -> None:
    run(
        [sys.executable, "-m", "venv", "--clear", VENV],
        failure="The virtual environment could not be made.",
    )


def _install() -> None:
    run(
        # The lock is complete: nothing is left for pip to resolve.
        [*_PIP, "install", "--no-deps", "--requirement", LOCK],
        failure="The packages of requirements.lock could not be installed.",
    )
    run(
        [*_PIP, "install", "--no-deps", "--editable", REPOSITORY],
        failure="The project could not be installed.",
    )


def _wanted() -> dict[str, str]:
    return {
        # A venv knows its own path and its Python: a moved clone needs a new one.
        "place": f"{VENV} with {Path(sys.executable).resolve()}",
        "packages": _digest(LOCK),
        "project": _digest(PROJECT),
    }


def _present() -> dict[str, str]:
    try:
        stamp: dict[str, str] = json.loads(_STAMP.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return stamp


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
