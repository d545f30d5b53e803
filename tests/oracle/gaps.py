"""Which numbers never came, and which rejected batches had them."""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

Sequence = tuple[str, str, str]
"""Device, kind, and the table of telemetry or the epoch of a journal."""


class Gap(NamedTuple):
    """A range between the lowest and the highest accepted number in which nothing was accepted."""

    device_id: str
    kind: str
    name: str
    first_missing: int
    last_missing: int
    rejections: int


class Numbers:
    """Every number that was accepted, and the numbers of batches that were rejected."""

    def __init__(self) -> None:
        """Start with no number seen."""
        self._accepted: dict[Sequence, set[int]] = {}
        self._rejected: dict[Sequence, list[tuple[int, int]]] = {}

    def accept(self, sequence: Sequence, number: int) -> None:
        """Remember an accepted number."""
        self._accepted.setdefault(sequence, set()).add(number)

    def reject(self, sequence: Sequence, first: int, last: int) -> None:
        """Remember the numbers of a rejected batch."""
        self._rejected.setdefault(sequence, []).append((first, last))

    def gaps(self) -> Iterator[Gap]:
        """All gaps there are now."""
        for sequence, numbers in self._accepted.items():
            in_order = sorted(numbers)
            for before, after in pairwise(in_order):
                if after > before + 1:
                    gap = (before + 1, after - 1)
                    yield Gap(*sequence, *gap, self._explained(sequence, *gap))

    def _explained(self, sequence: Sequence, first: int, last: int) -> int:
        rejected = self._rejected.get(sequence, ())
        return sum(begin <= last and end >= first for begin, end in rejected)
