"""The broker's own classes, compiled from the Java beside its list of jars."""

import hashlib
import shutil
from pathlib import Path
from typing import Final

from deploy.setup.jars import DIGESTS, JARS
from deploy.setup.report import REPOSITORY, run, step
from deploy.setup.system import ensure_compiler

SOURCES: Final = REPOSITORY / "deploy" / "broker"
CLASSES: Final = JARS / "broker-classes"

_STAMP: Final = CLASSES / "sources.sha256"
_DRAFT: Final = JARS / "broker-classes.new"


def ensure_broker() -> None:
    """Compile the classes unless those of these sources and jars are there."""
    wanted = _digest()
    if _STAMP.exists() and _STAMP.read_text() == wanted:
        return
    compiler = ensure_compiler()
    with step("Compiling the broker's classes"):
        shutil.rmtree(_DRAFT, ignore_errors=True)
        _compile(compiler)
        (_DRAFT / _STAMP.name).write_text(wanted)
        shutil.rmtree(CLASSES, ignore_errors=True)
        _DRAFT.rename(CLASSES)


def _compile(compiler: Path) -> None:
    run(
        # The oldest Java that may run them, whichever compiles them.
        [compiler, "--release", "17", "-cp", f"{JARS}/broker/*", "-d", _DRAFT, *_sources()],
        failure="javac could not compile the broker's classes.",
    )


def _sources() -> list[Path]:
    return sorted(SOURCES.glob("*.java"))


def _digest() -> str:
    digest = hashlib.sha256()
    for file in (DIGESTS, *_sources()):
        digest.update(file.read_bytes())
    return digest.hexdigest()
