"""Advisory file locks that vanish with their holder."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_LOOKS_END_WITHIN_S: Final = 0.5
_TRY_EVERY_S: Final = 0.01


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
    descriptor = _open(path)
    try:
        if wait:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        else:
            take_alone(descriptor)
        yield
    finally:
        os.close(descriptor)


def take_alone(descriptor: int) -> None:
    """Lock an open file alone, or raise Taken; who only looks whether it is held is waited for."""
    deadline = time.monotonic() + _LOOKS_END_WITHIN_S
    while True:
        try:
            return _take(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except Taken:
            if time.monotonic() >= deadline:
                raise
            time.sleep(_TRY_EVERY_S)


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
