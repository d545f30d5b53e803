"""Two things measured side by side, and the ratio of their medians."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

ROUNDS = 5
"""A median of fewer readings would be luck."""

Work = Callable[[], object]
Preparation = Callable[[int], Work]
"""Makes everything ready for one round, untimed, and gives back the work to be timed."""


class Target(NamedTuple):
    """What a ratio should be, and what it would be at best."""

    limit: float
    reach: float | None = None
    at_least: bool = False

    def is_met(self, ratio: float) -> bool:
        """Whether a ratio is on the good side of the limit."""
        return ratio >= self.limit if self.at_least else ratio <= self.limit

    def __str__(self) -> str:
        """The target as the table shows it."""
        told = f"{'≥' if self.at_least else '≤'} {self.limit:g}"
        return told if self.reach is None else f"{told}, reach {self.reach:g}"


class Figure(NamedTuple):
    """Something else that was measured on the way, for whoever wants to know why."""

    name: str
    value: float
    unit: str


@dataclass(frozen=True)
class Measured:
    """The seconds of every round, and what else was seen."""

    numerator: list[float]
    denominator: list[float]
    beside: list[Figure] = field(default_factory=list)

    @property
    def numerator_s(self) -> float:
        """The median of the numerator."""
        return statistics.median(self.numerator)

    @property
    def denominator_s(self) -> float:
        """The median of the denominator."""
        return statistics.median(self.denominator)

    @property
    def ratio(self) -> float:
        """The ratio of the medians."""
        return self.numerator_s / self.denominator_s

    def per(self, *, numerator: int = 1, denominator: int = 1) -> Measured:
        """The same, divided by how often each side did the work."""
        return Measured(
            [seconds / numerator for seconds in self.numerator],
            [seconds / denominator for seconds in self.denominator],
            self.beside,
        )

    def with_figures(self, *beside: Figure) -> Measured:
        """The same, with more that was seen."""
        return Measured(self.numerator, self.denominator, [*self.beside, *beside])


def always(work: Work) -> Preparation:
    """A preparation of work that needs none."""
    return lambda _: work


def interleaved(
    numerator: Preparation,
    denominator: Preparation,
    *,
    rounds: int = ROUNDS,
    clock: Callable[[], float] = time.perf_counter,
) -> Measured:
    """Measure two things in turn, each of them first in every other round."""
    measured = Measured([], [])
    sides = [(numerator, measured.numerator), (denominator, measured.denominator)]
    with _without_leftovers():
        for number in range(rounds):
            for prepare, seconds in sides if number % 2 == 0 else reversed(sides):
                seconds.append(timed(prepare(number), clock=clock))
    return measured


@contextmanager
def _without_leftovers() -> Iterator[None]:
    """Let the garbage collector not look again and again through what others left behind."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def timed(work: Work, *, clock: Callable[[], float] = time.perf_counter) -> float:
    """The seconds that some work takes."""
    started = clock()
    work()
    return clock() - started
