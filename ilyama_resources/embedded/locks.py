"""Advisory file locks that vanish with their holder."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Taken(Exception):
    """Somebody else holds the lock."""


@contextmanager
def shared(path: Path) -> Iterator[None]:
    """Hold `path` together with others; wait while somebody holds it alone."""
    with _locked(path, fcntl.LOCK_SH):
        yield


@contextmanager
def exclusive(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold `path` alone; wait until nobody else holds it, or raise Taken."""
    with _locked(path, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB)):
        yield


def hold_until_exit(path: Path) -> None:
    """Hold `path` alone, once nobody else holds it, for the rest of this process's life."""
    fcntl.flock(_open(path), fcntl.LOCK_EX)


def held_exclusively(path: Path) -> bool:
    """Tell whether some process holds `path` alone."""
    try:
        with _locked(path, fcntl.LOCK_SH | fcntl.LOCK_NB):
            return False
    except Taken:
        return True


@contextmanager
def _locked(path: Path, operation: int) -> Iterator[None]:
    descriptor = _open(path)
    try:
        _take(descriptor, operation)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, operation: int) -> None:
    try:
        fcntl.flock(descriptor, operation)
    except BlockingIOError as error:
        raise Taken from error


def _open(path: Path) -> int:
    # Python adds O_CLOEXEC: a server started meanwhile does not inherit the lock.
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
