"""The Java that Spark and the broker run on."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from ilyama_resources.errors import PlatformError

OLDEST_JAVA: Final = 17


class JavaError(PlatformError):
    """No usable Java; the message says what to install."""


def find_java() -> Path:
    """Find the `java` command: that of JAVA_HOME, else the one on the PATH.

    Raises:
        JavaError: there is none, or it is too old.
    """
    java = _java_of_home() or shutil.which("java")
    if java is None:
        raise JavaError("Java is missing: run `make setup`, or set JAVA_HOME to a JDK 17 or 21.")
    if _major_version(java) < OLDEST_JAVA:
        raise JavaError(
            f"{java} is older than Java {OLDEST_JAVA}: set JAVA_HOME to a JDK 17 or 21."
        )
    return Path(java).resolve()


def _java_of_home() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=Path(home) / "bin") if home else None


def _major_version(java: str) -> int:
    report = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(\d+)', report.stderr + report.stdout)
    return int(version[1]) if version else 0
