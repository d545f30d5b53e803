"""What the operating system must provide: Java, and a Python that can make a venv."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from deploy.setup.report import SetupError, run, step
from ilyama_resources.embedded.java import JavaError, find_java

_JAVA_PACKAGES: Final = ("openjdk-17-jdk-headless", "openjdk-21-jdk-headless")
_VENV_PACKAGES: Final = (f"python3.{sys.version_info.minor}-venv", "python3-venv")


class NotOffered(SetupError):
    """The system's apt has none of the packages that would do."""


def ensure_java() -> None:
    """Install a JDK unless a usable Java is there."""
    try:
        find_java()
    except JavaError:
        with step("Installing Java"):
            install_first_of(_JAVA_PACKAGES, because="Java 17 or 21 is missing.")
            _require_java()


def ensure_compiler() -> Path:
    """Give the Java compiler; install a JDK where there is only a JRE."""
    if _find_compiler() is None:
        with step("Installing the Java compiler"):
            install_first_of(_JAVA_PACKAGES, because="There is Java, but no javac.")
    compiler = _find_compiler()
    if compiler is None:
        raise SetupError("There is no javac: set JAVA_HOME to a JDK 17 or 21, not to a JRE.")
    return compiler


def ensure_venv_module() -> None:
    """Install the part of Python that makes virtual environments, which Debian splits off."""
    if importlib.util.find_spec("ensurepip") is None:
        with step("Installing Python's venv module"):
            install_first_of(_VENV_PACKAGES, because=f"{sys.executable} cannot make a venv.")


def install_first_of(packages: tuple[str, ...], *, because: str) -> None:
    """Install the first of these packages that this system's apt offers."""
    apt = _apt_command(packages, because=because)
    run([*apt, "update"], failure="apt-get update failed.")
    for package in packages:
        if _is_offered(package):
            run(
                [*apt, "install", "-y", "--no-install-recommends", package],
                failure=f"apt-get could not install {package}.",
            )
            return
    raise NotOffered(f"{because} None of {', '.join(packages)} is offered by this system's apt.")


def _find_compiler() -> Path | None:
    beside_java = find_java().with_name("javac")
    on_path = shutil.which("javac")
    if beside_java.exists():
        return beside_java
    return Path(on_path) if on_path else None


def _require_java() -> None:
    try:
        find_java()
    except JavaError as error:
        raise SetupError(str(error)) from error


def _apt_command(packages: tuple[str, ...], *, because: str) -> list[str]:
    if shutil.which("apt-get") is None:
        raise SetupError(f"{because} This system has no apt-get: install it by hand.")
    quietly = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]
    if os.geteuid() == 0:
        return quietly
    if shutil.which("sudo") is not None and subprocess.call(["sudo", "-v"]) == 0:
        return ["sudo", *quietly]
    raise SetupError(
        f"{because} Only root can install it: run `apt-get install {packages[0]}` as root, or "
        f"with {' or '.join(packages[1:])} where there is none, then make setup again."
    )


def _is_offered(package: str) -> bool:
    known = subprocess.run(
        ["apt-cache", "show", package], capture_output=True, text=True, check=False
    )
    return known.returncode == 0 and "Version:" in known.stdout
