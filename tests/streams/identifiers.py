"""UUIDs and times that come from the seed alone."""

import random
import uuid

START_US = 1_777_366_800_000_000
"""2026-04-28, nine o'clock UTC."""


class Identifiers:
    """A source of UUIDv7 that depends on nothing but its random numbers."""

    def __init__(self, rng: random.Random, start_us: int = START_US) -> None:
        """Start counting milliseconds where the stream starts."""
        self._rng = rng
        self._milliseconds = start_us // 1000

    def uuid7(self) -> str:
        """The next id, a millisecond after the one before."""
        self._milliseconds += 1
        bits = self._milliseconds << 80 | 7 << 76 | self._rng.getrandbits(12) << 64
        return str(uuid.UUID(int=bits | 2 << 62 | self._rng.getrandbits(62)))
