"""How segments are called: by UUIDv7s, whose order is the order of landing."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path

_ORDINALS_PER_MS = 4096


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _random_tail() -> int:
    return secrets.randbits(62)


class SegmentIds:
    """UUIDv7s that increase with their ordinal; the same seed gives the same ids."""

    def __init__(self, started_ms: int, tail: int) -> None:
        self.started_ms = started_ms
        self.tail = tail

    @classmethod
    def fresh(cls) -> SegmentIds:
        """Ids that begin now."""
        return cls(_now_ms(), _random_tail())

    def __getitem__(self, ordinal: int) -> str:
        """The id of the segment with this ordinal."""
        later_ms, counter = divmod(ordinal, _ORDINALS_PER_MS)
        number = (self.started_ms + later_ms) << 80 | 0x7 << 76 | counter << 64
        digits = f"{number | 0b10 << 62 | self.tail:032x}"
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


class RisingIds:
    """Ids that follow the clock, one after another, and rise even where the clock is set back.

    With a note they rise above those of the process before, too.
    """

    def __init__(self, note: Path | None = None, *, now_ms: Callable[[], int] = _now_ms) -> None:
        self._note = note
        self._now_ms = now_ms
        self._last_ms = 0 if note is None else _noted(note)

    def next(self) -> str:
        """The id of the next segment."""
        self._last_ms = max(self._now_ms(), self._last_ms + 1)
        if self._note is not None:
            _remember(self._note, self._last_ms)
        return SegmentIds(self._last_ms, _random_tail())[0]


def _noted(note: Path) -> int:
    # A power cut can leave a note of anything; landing must not stop for it.
    noted = note.read_bytes() if note.exists() else b""
    return int(noted) if noted.isdigit() else 0


def _remember(note: Path, last_ms: int) -> None:
    # In place: a full disk must not leave an empty note.
    descriptor = os.open(note, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        written = os.pwrite(descriptor, str(last_ms).encode(), 0)
        os.ftruncate(descriptor, written)
    finally:
        os.close(descriptor)
