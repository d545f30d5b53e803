"""Rate limits: a bucket per sender that fills at a steady rate."""

from collections.abc import Callable
from time import monotonic
from typing import Final

_MOST_SENDERS: Final = 10_000
_BURST_S: Final = 2


class RateLimit:
    """How many requests a second each sender may make, and twice as many at once."""

    def __init__(self, per_s: float, clock: Callable[[], float] = monotonic) -> None:
        self._per_s = per_s
        self._most = max(1.0, per_s * _BURST_S)
        self._clock = clock
        self._levels: dict[str, tuple[float, float]] = {}

    @property
    def senders(self) -> int:
        """How many senders are remembered."""
        return len(self._levels)

    def wait_s(self, sender: str) -> float:
        """Take one from the sender's bucket; when it is empty, tell how long to wait."""
        now = self._clock()
        level = self._level(sender, now)
        if level < 1:
            return (1 - level) / self._per_s
        if sender not in self._levels and len(self._levels) >= _MOST_SENDERS:
            self._forget_idle(now)
        self._levels[sender] = (level - 1, now)
        return 0.0

    def _level(self, sender: str, now: float) -> float:
        level, at = self._levels.get(sender, (self._most, now))
        return min(self._most, level + (now - at) * self._per_s)

    def _forget_idle(self, now: float) -> None:
        """Drop buckets that are full again: they say nothing; all of them if none is."""
        senders = list(self._levels)
        kept = {s: self._levels[s] for s in senders if self._level(s, now) < self._most}
        self._levels = kept if len(kept) < _MOST_SENDERS else {}
