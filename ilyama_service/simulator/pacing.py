"""The schedule of a run: how many messages are due, however late one is."""

import time
from collections.abc import Callable

Clock = Callable[[], float]


class Pace:
    """Lets a steady number of messages per second fall due, and does not forgive delays.

    `most_arrears_s` forgives what is later than that: an endless fleet has nothing to make up for.
    """

    def __init__(
        self, rate: float, *, most_arrears_s: float | None = None, clock: Clock = time.monotonic
    ) -> None:
        self._rate = rate
        self._most_arrears_s = most_arrears_s
        self._clock = clock
        self._start = clock()
        self._taken = 0

    def due(self) -> int:
        """How many messages should have been sent by now and were not."""
        owed = int((self._clock() - self._start) * self._rate) + 1 - self._taken
        if self._most_arrears_s is not None:
            forgiven = owed - max(1, int(self._most_arrears_s * self._rate))
            if forgiven > 0:
                self._taken += forgiven
                owed -= forgiven
        return max(0, owed)

    def take(self, count: int) -> None:
        """Count messages as sent."""
        self._taken += count

    def until_next(self) -> float:
        """Seconds until the next message falls due."""
        return max(0.0, self._start + self._taken / self._rate - self._clock())
