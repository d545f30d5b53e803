"""Who may hold the landing session, and what it is subscribed to."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ilyama_resources.durability import make_directory
from ilyama_resources.embedded import locks
from ilyama_resources.mqtt.errors import LandingBusy


class SubscriptionNote:
    """Which topics a session on the broker is subscribed to, as far as we know."""

    def __init__(self, file: Path, *, session: str) -> None:
        self._file = file
        self._session = session

    def read(self) -> list[str]:
        """The topics of this session; none when the note is about another one."""
        if not self._file.exists():
            return []
        session, _, filters = self._file.read_text(encoding="utf-8").partition("\n")
        return filters.splitlines() if session == self._session else []

    def withdraw(self) -> None:
        """Forget what was noted: the broker has forgotten the session."""
        self._file.unlink(missing_ok=True)

    def write(self, filters: Sequence[str]) -> None:
        """Note what the session is subscribed to now."""
        draft = self._file.with_suffix(".new")
        draft.write_text("\n".join((self._session, *filters)), encoding="utf-8")
        draft.replace(self._file)


@contextmanager
def sole_holder(lock: Path) -> Iterator[None]:
    """Hold the landing session alone.

    Raises:
        LandingBusy: another process holds it.
    """
    make_directory(lock.parent)
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        locks.take_alone(descriptor)
    except locks.Taken as error:
        os.close(descriptor)
        raise LandingBusy(f"Another process lands what devices send; it holds {lock}.") from error
    try:
        yield
    finally:
        os.close(descriptor)
