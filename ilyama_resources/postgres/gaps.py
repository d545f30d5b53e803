"""Gaps as they are listed, each with the rejections that explain it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Label,
    ScalarSelect,
    Select,
    Subquery,
    Table,
    Text,
    case,
    cast,
    func,
    literal,
    null,
    or_,
    select,
    tuple_,
)

from ilyama_protocol.intake.sequences import SequenceKind
from ilyama_resources.postgres.copying import shown
from ilyama_resources.postgres.rejections import RejectionState
from ilyama_resources.postgres.schema import (
    REJECTION,
    SEQUENCE_GAP,
    SEQUENCE_OVERFLOW,
    SEQUENCE_REJECTION,
)
from ilyama_resources.postgres.sequences import SCOPE, Gap

MOST_LINKED: Final = 10
"""Of the rejections that explain a gap so many are named."""
MOST_NEAR: Final = 1000
"""Of the rejected batches that may have had numbers of a journal's gap so many are looked at."""


class ExplainedGap(NamedTuple):
    """A gap with the rejections of batches that had its numbers; some of them may be discarded."""

    gap: Gap
    rejections: int
    discarded: int
    rejection_ids: list[str]


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
    """The gaps of one kind of sequence, and at least how many numbers are missing beside them."""

    kind: str
    gaps: int
    missing: int
    unlisted: int


_FIELDS = [SEQUENCE_GAP.c[name] for name in Gap._fields]
_MISSING = SEQUENCE_GAP.c.last_missing - SEQUENCE_GAP.c.first_missing + 1
_ORDER = [SEQUENCE_GAP.c[name] for name in GapPlace._fields]


class Gaps:
    """The gaps of all sequences, for readers."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

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
        listed = select(SEQUENCE_GAP.c.kind, func.count(), func.sum(_MISSING))
        numbers = SEQUENCE_OVERFLOW.c.numbers
        overflow = select(SEQUENCE_OVERFLOW.c.kind, func.sum(numbers)).where(numbers > 0)
        unlisted = _by_kind(self._connection, overflow.group_by(SEQUENCE_OVERFLOW.c.kind))
        rows = self._connection.execute(listed.group_by(SEQUENCE_GAP.c.kind))
        known = {kind: (count, int(numbers)) for kind, count, numbers in rows}
        return [
            GapTotal(kind, *known.get(kind, (0, 0)), unlisted.get(kind, 0))
            for kind in sorted({*known, *unlisted})
        ]

    def unlisted(self, wanted: GapFilter) -> int:
        """At least so many numbers are missing beside those in gaps."""
        total = func.sum(SEQUENCE_OVERFLOW.c.numbers)
        query = select(total).where(*_narrowed(SEQUENCE_OVERFLOW, wanted))
        return int(self._connection.scalar(query) or 0)

    def widest(self, kind: SequenceKind, *, limit: int) -> list[ExplainedGap]:
        """The widest gaps of a kind, and of equal ones the newest first."""
        query = _explained(GapFilter(kind=kind)).order_by(None)
        first = (_MISSING.desc(), SEQUENCE_GAP.c.opened_in.desc(), *_ORDER)
        rows = self._connection.execute(query.order_by(*first).limit(limit))
        return list(map(_explained_gap, rows))


def _by_kind(connection: Connection, query: Select[Any]) -> Mapping[str, int]:
    return {kind: int(numbers) for kind, numbers in connection.execute(query)}


def _near() -> Subquery:
    """The rejected batches that may have had numbers of a gap.

    One of telemetry has a single number. Those of a journal have ranges of any width, so all that
    begin before the end of a gap may reach into it; the last of them are looked at.
    """
    gap, batch = SEQUENCE_GAP.c, SEQUENCE_REJECTION.c
    of_telemetry = gap.kind == SequenceKind.TELEMETRY
    lowest = case((of_telemetry, gap.first_missing), else_=0)
    query = (
        select(SEQUENCE_REJECTION)
        .where(*(batch[name] == gap[name] for name in SCOPE))
        .where(batch.first_number.between(lowest, gap.last_missing))
        .order_by(batch.first_number.desc())
        .limit(case((of_telemetry, null()), else_=MOST_NEAR))
    )
    return query.correlate(SEQUENCE_GAP).subquery("near")


_NEAR = _near()
_LINKED = _NEAR.outerjoin(REJECTION, REJECTION.c.rejection_id == _NEAR.c.rejection_id)
_CAME = REJECTION.c.state == RejectionState.ACCEPTED.value
_DISCARDED = REJECTION.c.state == RejectionState.DISCARDED.value
_EXPLAINS = (
    _NEAR.c.last_number >= SEQUENCE_GAP.c.first_missing,
    or_(REJECTION.c.state.is_(None), ~_CAME),
)
"""A rejected batch had numbers of a gap, and was not accepted since."""


def _rejections(*which: ColumnElement[bool]) -> ScalarSelect[int]:
    query = select(func.count()).select_from(_LINKED).where(*_EXPLAINS, *which)
    return query.correlate(SEQUENCE_GAP).scalar_subquery()


def _rejection_ids() -> Label[Any]:
    rejection_id = cast(_NEAR.c.rejection_id, Text)
    query = select(rejection_id).select_from(_LINKED).where(*_EXPLAINS)
    first = query.order_by(_NEAR.c.received_at).limit(MOST_LINKED)
    return func.array(first.correlate(SEQUENCE_GAP).scalar_subquery()).label("rejection_ids")


def _explained(wanted: GapFilter) -> Select[Any]:
    told = (_rejections(), _rejections(_DISCARDED), _rejection_ids())
    return select(*_FIELDS, *told).where(*_narrowed(SEQUENCE_GAP, wanted)).order_by(*_ORDER)


def _explained_gap(row: Any) -> ExplainedGap:
    *gap, rejections, discarded, ids = row
    return ExplainedGap(Gap(*gap), rejections, discarded, list(ids))


def _narrowed(table: Table, wanted: GapFilter) -> list[ColumnElement[bool]]:
    named = zip(GapFilter._fields, wanted, strict=True)
    return [table.c[name] == shown(value) for name, value in named if value is not None]
