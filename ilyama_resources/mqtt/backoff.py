"""Waiting longer after each failure, and not all at the same moment."""

import random
from typing import Final

FIRST_S: Final = 0.5
LONGEST_S: Final = 30.0


class Backoff:
    """Delays that double from the first to the longest, each cut by up to half at random."""

    def __init__(self, first_s: float = FIRST_S, longest_s: float = LONGEST_S) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._next_s = first_s

    def next_delay(self) -> float:
        """How long to wait after one more failure."""
        delay = self._next_s
        self._next_s = min(delay * 2, self._longest_s)
        # Spreads clients that lost the same broker; nothing secret hangs on it.
        return delay * random.uniform(0.5, 1)

    def reset(self) -> None:
        """Begin anew, after a success."""
        self._next_s = self._first_s
