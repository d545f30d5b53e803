"""The browser of the tests: a Chromium or Chrome of the system; none is downloaded."""

import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

from deploy.setup.report import step
from deploy.setup.system import NotOffered, install_first_of

BROWSERS: Final = ("chromium", "google-chrome", "google-chrome-stable", "chromium-browser")
NO_BROWSER: Final = (
    "There is no browser for the tests of the user interface, and they are skipped. Ubuntu offers "
    "Chromium as a snap, which tests cannot drive: install Google Chrome to run them."
)

_PACKAGES: Final = ("chromium",)


def ensure_browser() -> None:
    """Install Debian's Chromium unless a browser is there; say so where the system has none."""
    if find_browser() is not None:
        return
    with step("Installing Chromium, for the tests of the user interface"), suppress(NotOffered):
        install_first_of(_PACKAGES, because="There is no Chromium.")
    if find_browser() is None:
        print(f"    {NO_BROWSER}", flush=True)


def find_browser() -> Path | None:
    """The first browser on the path that tests can drive."""
    found = (shutil.which(name) for name in BROWSERS)
    return next((Path(path) for path in found if path and _is_usable(path)), None)


def _is_usable(path: str) -> bool:
    """Tell a browser from the stub of a snap, which is confined and sees no temporary files."""
    told = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    return told.returncode == 0 and "snap" not in told.stdout.lower()
