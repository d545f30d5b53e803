"""Gaps: numbers of journals and telemetry that never came, and the rejections that explain them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Label,
    ScalarSelect,
    Select,
    and_,
    delete,
    func,
    literal,
    select,
    tuple_,
)
from sqlalchemy.dialects.postgresql import insert

from ilyama_protocol.intake.sequences import (
    Island,
    SequenceChange,
    SequenceKind,
    joined_islands,
    size_of,
    without,
)
from ilyama_protocol.moments import utc
from ilyama_resources.postgres.copying import copied, shown
from ilyama_resources.postgres.pairs import these
from ilyama_resources.postgres.schema import (
    SEQUENCE_GAP,
    SEQUENCE_OVERFLOW,
    SEQUENCE_REJECTION,
)

MOST_GAPS = 1000
"""Of a journal no more gaps are listed: tables that are not replicated have numbers too."""
MOST_LINKED = 10
"""Of the rejections that explain a gap so many are named."""

Scope = tuple[str, str, str, int]
"""Device, kind, name of the sequence, era."""


class Gap(NamedTuple):
    """A range of numbers between accepted ones in which nothing was accepted."""

    device_id: str
    kind: str
    name: str
    era: int
    first_missing: int
    last_missing: int
    opened_at: datetime
    opened_in: int

    @property
    def scope(self) -> Scope:
        """The sequence it is a gap of."""
        return self.device_id, self.kind, self.name, self.era


class ExplainedGap(NamedTuple):
    """A gap with the rejections of batches that had its numbers."""

    gap: Gap
    rejections: int
    rejection_ids: list[str]


class RejectedBatch(NamedTuple):
    """A rejected batch whose numbers are known."""

    rejection_id: str
    device_id: str
    kind: str
    name: str
    first_number: int
    last_number: int
    code: str
    source_table: str
    received_at: datetime
    era: int = 0


class GapFilter(NamedTuple):
    """Which gaps are asked for; what is None does not narrow."""

    device_id: str | None = None
    kind: SequenceKind | None = None
    name: str | None = None


class GapPlace(NamedTuple):
    """Where a page of gaps ended."""

    device_id: str
    kind: str
    name: str
    era: int
    first_missing: int


class GapTotal(NamedTuple):
    """The gaps of one kind of sequence, and those too many to be listed."""

    kind: str
    gaps: int
    missing: int
    unlisted: int


_FIELDS = [SEQUENCE_GAP.c[name] for name in Gap._fields]
_ORDER = [SEQUENCE_GAP.c[name] for name in GapPlace._fields]


class Sequences:
    """The gaps of all sequences."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def advance(self, changes: Iterable[tuple[str, SequenceChange]], *, drain_id: int) -> None:
        """Take up what a drain changed: numbers that came close gaps, others open new ones."""
        every = list(changes)
        known = self._known((device, c.name) for device, c in every if _meets_known_gaps(c))
        closed: list[Gap] = []
        opened: list[Gap] = []
        overflow: Counter[Scope] = Counter()
        for device_id, change in every:
            scope = (device_id, change.kind.value, change.name, change.era)
            gone, new = _changed_gaps(known.get(scope, ()), scope, change, drain_id=drain_id)
            listed, unlisted = _listed(known.get(scope, ()), gone, new, change)
            closed += gone
            opened += listed
            overflow[scope] += unlisted + change.unlisted
        self._overflow(overflow)
        self._remove(closed)
        if opened:
            self._connection.execute(insert(SEQUENCE_GAP), [gap._asdict() for gap in opened])

    def note_rejections(self, rejected: Sequence[RejectedBatch]) -> None:
        """Remember rejected batches by their numbers."""
        rows = [batch._asdict() for batch in rejected]
        if rows:
            statement = insert(SEQUENCE_REJECTION).on_conflict_do_nothing()
            self._connection.execute(statement, rows)

    def page(
        self, wanted: GapFilter, *, after: GapPlace | None, limit: int | None
    ) -> list[ExplainedGap]:
        """The next gaps, by device, kind, sequence and number."""
        query = _explained(wanted)
        if after is not None:
            query = query.where(tuple_(*_ORDER) > tuple_(*map(literal, after)))
        return list(map(_explained_gap, self._connection.execute(query.limit(limit))))

    def in_portions(self, *, rows: int) -> Iterator[list[ExplainedGap]]:
        """All gaps as they are at one moment, so many at a time."""
        query = _explained(GapFilter()).execution_options(yield_per=rows)
        for portion in self._connection.execute(query).partitions():
            yield list(map(_explained_gap, portion))

    def totals(self) -> list[GapTotal]:
        """The gaps by kind."""
        missing = SEQUENCE_GAP.c.last_missing - SEQUENCE_GAP.c.first_missing + 1
        listed = select(SEQUENCE_GAP.c.kind, func.count(), func.sum(missing))
        overflow = select(SEQUENCE_OVERFLOW.c.kind, func.sum(SEQUENCE_OVERFLOW.c.numbers))
        unlisted = _by_kind(self._connection, overflow.group_by(SEQUENCE_OVERFLOW.c.kind))
        rows = self._connection.execute(listed.group_by(SEQUENCE_GAP.c.kind))
        known = {kind: (count, int(numbers)) for kind, count, numbers in rows}
        return [
            GapTotal(kind, *known.get(kind, (0, 0)), unlisted.get(kind, 0))
            for kind in sorted({*known, *unlisted})
        ]

    def forget_rejections(self, *, received_before: datetime) -> int:
        """Forget rejected batches that came long ago; how many there were."""
        old = SEQUENCE_REJECTION.c.received_at < received_before
        return self._connection.execute(delete(SEQUENCE_REJECTION).where(old)).rowcount

    def _known(self, scopes: Iterable[tuple[str, str]]) -> dict[Scope, list[Gap]]:
        pair = tuple_(SEQUENCE_GAP.c.device_id, SEQUENCE_GAP.c.name)
        found: dict[Scope, list[Gap]] = {}
        asked = sorted(set(scopes))
        if asked:
            for row in self._connection.execute(select(*_FIELDS).where(pair.in_(these(asked)))):
                gap = Gap(*row)
                found.setdefault(gap.scope, []).append(gap)
        return found

    def _remove(self, gaps: Sequence[Gap]) -> None:
        if not gaps:
            return
        names = SEQUENCE_GAP.columns.keys()
        rows = ([getattr(gap, name) for name in names] for gap in gaps)
        gone = copied(self._connection, SEQUENCE_GAP, rows)
        same = [column == gone.c[column.name] for column in SEQUENCE_GAP.primary_key]
        self._connection.execute(delete(SEQUENCE_GAP).where(*same))

    def _overflow(self, numbers: Mapping[Scope, int]) -> None:
        """Count numbers that are not listed, on top of those counted before."""
        names = ("device_id", "kind", "name", "era", "numbers")
        rows = [dict(zip(names, (*scope, n), strict=True)) for scope, n in numbers.items() if n]
        if not rows:
            return
        statement = insert(SEQUENCE_OVERFLOW)
        both = SEQUENCE_OVERFLOW.c.numbers + statement.excluded.numbers
        self._connection.execute(
            statement.on_conflict_do_update(
                index_elements=list(SEQUENCE_OVERFLOW.primary_key), set_={"numbers": both}
            ),
            rows,
        )


def _meets_known_gaps(change: SequenceChange) -> bool:
    return bool(change.covered) or change.kind is SequenceKind.ROWS


def _changed_gaps(
    known: Sequence[Gap], scope: Scope, change: SequenceChange, *, drain_id: int
) -> tuple[list[Gap], list[Gap]]:
    """The gaps that are no longer what they were, and those that are there instead or new."""
    gone: list[Gap] = []
    new: list[Gap] = []
    covered = joined_islands(change.covered)
    for gap in known:
        left = without((gap.first_missing, gap.last_missing), covered)
        if left != [(gap.first_missing, gap.last_missing)]:
            gone.append(gap)
            new += [_narrower(gap, part) for part in left]
    at = utc(change.at)
    new += [Gap(*scope, first, last, at, drain_id) for first, last in change.opened]
    return gone, new


def _narrower(gap: Gap, part: Island) -> Gap:
    return gap._replace(first_missing=part[0], last_missing=part[1])


def _listed(
    known: Sequence[Gap], gone: Sequence[Gap], new: list[Gap], change: SequenceChange
) -> tuple[list[Gap], int]:
    """Those of the new gaps that there is room for, the widest first, and the others' numbers."""
    room = MOST_GAPS - (len(known) - len(gone))
    if change.kind is SequenceKind.TELEMETRY or len(new) <= room:
        return new, 0
    widest = sorted(new, key=_size, reverse=True)
    return widest[: max(room, 0)], sum(map(_size, widest[max(room, 0) :]))


def _size(gap: Gap) -> int:
    return size_of((gap.first_missing, gap.last_missing))


def _by_kind(connection: Connection, query: Select[Any]) -> Mapping[str, int]:
    return {kind: int(numbers) for kind, numbers in connection.execute(query)}


def _explains() -> ColumnElement[bool]:
    """Whether a rejected batch had numbers of a gap."""
    same = [SEQUENCE_REJECTION.c[name] == SEQUENCE_GAP.c[name] for name in _SAME]
    overlaps = and_(
        SEQUENCE_REJECTION.c.first_number <= SEQUENCE_GAP.c.last_missing,
        SEQUENCE_REJECTION.c.last_number >= SEQUENCE_GAP.c.first_missing,
    )
    return and_(*same, overlaps)


_SAME = ("device_id", "kind", "name", "era")


def _rejections() -> ScalarSelect[int]:
    query = select(func.count()).select_from(SEQUENCE_REJECTION).where(_explains())
    return query.correlate(SEQUENCE_GAP).scalar_subquery()


def _rejection_ids() -> Label[Any]:
    query = select(SEQUENCE_REJECTION.c.rejection_id).where(_explains())
    first = query.order_by(SEQUENCE_REJECTION.c.received_at).limit(MOST_LINKED)
    return func.array(first.correlate(SEQUENCE_GAP).scalar_subquery()).label("rejection_ids")


def _explained(wanted: GapFilter) -> Select[Any]:
    query = select(*_FIELDS, _rejections(), _rejection_ids()).where(*_narrowed(wanted))
    return query.order_by(*_ORDER)


def _explained_gap(row: Any) -> ExplainedGap:
    return ExplainedGap(Gap(*row[:-2]), row[-2], list(row[-1]))


def _narrowed(wanted: GapFilter) -> list[ColumnElement[bool]]:
    named = zip(GapFilter._fields, wanted, strict=True)
    return [SEQUENCE_GAP.c[name] == shown(value) for name, value in named if value is not None]
