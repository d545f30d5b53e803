"""Who may hold the landing session, and how its segments are called."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ilyama_resources.durability import make_directory
from ilyama_resources.mqtt.errors import LandingBusy
from ilyama_resources.segment_files import SegmentIds


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class RisingIds:
    """Segment ids that follow the clock and rise even where the clock is set back."""

    def __init__(self, note: Path, *, now_ms: Callable[[], int] = _now_ms) -> None:
        self._note = note
        self._now_ms = now_ms
        self._tail = SegmentIds.fresh().tail
        self._last_ms = self._noted()

    def next(self) -> str:
        """The id of the next segment."""
        self._last_ms = max(self._now_ms(), self._last_ms + 1)
        self._remember()
        return SegmentIds(self._last_ms, self._tail)[0]

    def _noted(self) -> int:
        # A power cut can leave a note of anything; landing must not stop for it.
        noted = self._note.read_bytes() if self._note.exists() else b""
        return int(noted) if noted.isdigit() else 0

    def _remember(self) -> None:
        # In place: a full disk must not leave an empty note.
        descriptor = os.open(self._note, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            written = os.pwrite(descriptor, str(self._last_ms).encode(), 0)
            os.ftruncate(descriptor, written)
        finally:
            os.close(descriptor)


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
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise LandingBusy(f"Another process lands what devices send; it holds {lock}.") from error
    try:
        yield
    finally:
        os.close(descriptor)
