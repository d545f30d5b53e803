"""The jars of Delta and of the broker, fetched by the Ivy that the pyspark wheel contains."""

import hashlib
import shutil
from pathlib import Path
from typing import Final

from deploy.setup.packages import VENV
from deploy.setup.report import REPOSITORY, SetupError, run, step
from ilyama_resources.embedded.java import find_java

JARS: Final = REPOSITORY / ".jars"
DIGESTS: Final = REPOSITORY / "deploy" / "jars.sha256"

_IVY_FILE: Final = REPOSITORY / "deploy" / "ivy.xml"
_IVY_SETTINGS: Final = REPOSITORY / "deploy" / "ivysettings.xml"
_STAMP: Final = JARS / "verified"
_CACHE: Final = JARS / "cache"


def ensure_jars() -> None:
    """Fetch the jars that are missing or wrong, and check every one against the list."""
    if _STAMP.exists() and _STAMP.read_text() == _digest(DIGESTS) and not _missing():
        return
    if _missing() or _wrong():
        with step("Fetching the jars of Delta and of the broker"):
            _fetch()
            _require_the_right_ones()
    _STAMP.write_text(_digest(DIGESTS))


def _fetch() -> None:
    for jar in _wrong():
        (JARS / jar).unlink()
    _STAMP.unlink(missing_ok=True)
    run(
        [
            *(find_java(), "-Djava.net.useSystemProxies=true", "-jar", _ivy()),
            *("-settings", _IVY_SETTINGS, "-ivy", _IVY_FILE, "-cache", _CACHE),
            *("-confs", "delta", "broker"),
            *("-retrieve", f"{JARS}/[conf]/[artifact]-[revision](-[classifier]).[ext]"),
        ],
        failure="Ivy could not fetch the jars from Maven Central.",
    )


def _require_the_right_ones() -> None:
    for jar in (*_missing(), *_wrong()):
        raise SetupError(f".jars/{jar} is not the one that deploy/jars.sha256 names.")
    shutil.rmtree(_CACHE)


def _ivy() -> Path:
    found = sorted(VENV.glob("lib/python3.*/site-packages/pyspark/jars/ivy-*.jar"))
    if not found:
        raise SetupError(
            "The pyspark package in .venv has no Ivy: run make clean, then make setup."
        )
    return found[-1]


def _missing() -> list[str]:
    return [jar for jar in _listed() if not (JARS / jar).exists()]


def _wrong() -> list[str]:
    present = {jar: digest for jar, digest in _listed().items() if (JARS / jar).exists()}
    return [jar for jar, digest in present.items() if _digest(JARS / jar) != digest]


def _listed() -> dict[str, str]:
    lines = (line.split() for line in DIGESTS.read_text().splitlines())
    return {jar: digest for digest, jar in lines}


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
