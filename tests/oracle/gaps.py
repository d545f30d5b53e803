"""Which numbers never came, and which rejected batches had them."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

Sequence = tuple[str, str, str]
"""Device, kind, and the table of telemetry or the epoch of a journal."""
Counted = tuple[str, str, str, int]
"""The same, with how often its numbers began anew."""


class Gap(NamedTuple):
    """A range between the lowest and the highest accepted number in which nothing was accepted."""

    device_id: str
    kind: str
    name: str
    era: int
    first_missing: int
    last_missing: int
    rejections: int


class Numbers:
    """Every number that was accepted, and the numbers of batches that were rejected."""

    def __init__(self) -> None:
        """Start with no number seen."""
        self._accepted: dict[Counted, set[int]] = {}
        self._rejected: dict[Counted, list[tuple[int, int]]] = {}
        self._eras: Counter[Sequence] = Counter()

    def begin_era(self, sequence: Sequence) -> None:
        """Let the numbers of a sequence begin anew."""
        self._eras[sequence] += 1

    def accept(self, sequence: Sequence, number: int) -> None:
        """Remember an accepted number."""
        self._accepted.setdefault(self._now(sequence), set()).add(number)

    def reject(self, sequence: Sequence, first: int, last: int) -> None:
        """Remember the numbers of a rejected batch."""
        self._rejected.setdefault(self._now(sequence), []).append((first, last))

    def gaps(self) -> Iterator[Gap]:
        """All gaps there are now."""
        for sequence, numbers in self._accepted.items():
            in_order = sorted(numbers)
            for before, after in pairwise(in_order):
                if after > before + 1:
                    gap = (before + 1, after - 1)
                    yield Gap(*sequence, *gap, self._explained(sequence, *gap))

    def _now(self, sequence: Sequence) -> Counted:
        return (*sequence, self._eras[sequence])

    def _explained(self, sequence: Counted, first: int, last: int) -> int:
        rejected = self._rejected.get(sequence, ())
        return sum(begin <= last and end >= first for begin, end in rejected)
