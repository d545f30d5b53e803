"""Sequences: which numbers of a journal or of telemetry came, and where there are gaps.

Only the lowest and the highest accepted number of a sequence are remembered. A drain says which
gaps it opened beyond them, and which numbers between them it brought: those close older gaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

Island = tuple[int, int]
"""The first and the last of numbers without a gap."""

MOST_OPENED = 256
"""A journal may have numbers of tables that are not replicated: of its gaps the widest are told."""


class SequenceKind(StrEnum):
    """What is numbered: the commits of a journal, or the batches of a table's telemetry."""

    ROWS = "rows"
    TELEMETRY = "telemetry"


class Numbering(NamedTuple):
    """One sequence of a device: a journal epoch, or a table within an era."""

    kind: SequenceKind
    name: str
    era: int = 0


class SequenceChange(msgspec.Struct, frozen=True):
    """What a drain changed about the gaps of one sequence."""

    kind: SequenceKind
    name: str
    era: int
    at: int
    """The received_at of the last message that brought numbers."""
    opened: list[Island] = []
    covered: list[Island] = []
    unlisted: int = 0
    """Numbers in narrow gaps that are not told one by one."""


def islands_of(numbers: npt.NDArray[np.int64]) -> list[Island]:
    """The islands of numbers, at least one, in order."""
    if len(numbers) == numbers[-1] - numbers[0] + 1 and (np.diff(numbers) == 1).all():
        return [(int(numbers[0]), int(numbers[-1]))]
    known = np.unique(numbers)
    ends = np.flatnonzero(np.diff(known) > 1)
    firsts = known[np.concatenate([[0], ends + 1])]
    lasts = known[np.concatenate([ends, [len(known) - 1]])]
    return [*zip(firsts.tolist(), lasts.tolist(), strict=True)]


def joined_islands(islands: Iterable[Island]) -> list[Island]:
    """Islands in order, those that touch or overlap as one."""
    joined: list[Island] = []
    for first, last in sorted(islands):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(last, joined[-1][1])
        else:
            joined.append((first, last))
    return joined


def gaps_between(islands: Sequence[Island]) -> list[Island]:
    """The gaps between islands in order."""
    pairs = pairwise(islands)
    return [(left[1] + 1, right[0] - 1) for left, right in pairs]


def without(gap: Island, covered: Iterable[Island]) -> list[Island]:
    """What is left of a gap when islands in order have come."""
    left, (first, last) = [], gap
    for begin, end in covered:
        if end < first or begin > last:
            continue
        if begin > first:
            left.append((first, begin - 1))
        first = end + 1
    return [*left, (first, last)] if first <= last else left


def size_of(gap: Island) -> int:
    """How many numbers a gap has."""
    return gap[1] - gap[0] + 1


def changed(
    numbering: Numbering, islands: Sequence[Island], span: Island | None, *, at: int
) -> tuple[Island, SequenceChange | None]:
    """The span after islands came, and what they change; None when there is no gap in play."""
    came = joined_islands(islands)
    known = came if span is None else joined_islands([*came, span])
    opened = gaps_between(known)
    covered = [] if span is None else [*_within(came, span)]
    grown = known[0][0], known[-1][1]
    if not opened and not covered:
        return grown, None
    told = opened
    if numbering.kind is SequenceKind.ROWS and len(opened) > MOST_OPENED:
        told = sorted(sorted(opened, key=size_of, reverse=True)[:MOST_OPENED])
    unlisted = sum(map(size_of, opened)) - sum(map(size_of, told))
    return grown, SequenceChange(*numbering, at, told, covered, unlisted)


def _within(islands: Iterable[Island], span: Island) -> Iterable[Island]:
    for first, last in islands:
        begin, end = max(first, span[0]), min(last, span[1])
        if begin <= end:
            yield begin, end
