"""Gaps as the records keep them: numbers that never came, and rejected batches by their numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import NamedTuple

from sqlalchemy import Connection, ScalarSelect, and_, delete, select, tuple_
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
from ilyama_resources.postgres.copying import copied
from ilyama_resources.postgres.pairs import these
from ilyama_resources.postgres.schema import SEQUENCE_GAP, SEQUENCE_OVERFLOW, SEQUENCE_REJECTION

MOST_GAPS = 1000
"""Of a journal no more gaps are listed: tables that are not replicated have numbers too."""

Scope = tuple[str, str, str, int]
"""Device, kind, name of the sequence, era."""
SCOPE = ("device_id", "kind", "name", "era")


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

    @property
    def missing(self) -> int:
        """How many numbers are missing."""
        return size_of((self.first_missing, self.last_missing))


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


class _Unlisted(NamedTuple):
    """What a drain did to the numbers that are missing and not listed."""

    came: int
    """At most so many of them came: a number that came once before is among these, too."""
    added: int


_COUNTED = (*SCOPE, "numbers")
_FIELDS = [SEQUENCE_GAP.c[name] for name in Gap._fields]


class Sequences:
    """The gaps of all sequences, and rejected batches by their numbers."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def advance(self, changes: Iterable[tuple[str, SequenceChange]], *, drain_id: int) -> None:
        """Take up what a drain changed: numbers that came close gaps, others open new ones."""
        every = list(changes)
        known = self._known((device, c.name) for device, c in every if _meets_known_gaps(c))
        closed: list[Gap] = []
        opened: list[Gap] = []
        overflow: dict[Scope, _Unlisted] = {}
        for device_id, change in every:
            scope = (device_id, change.kind.value, change.name, change.era)
            gone, new = _changed_gaps(known.get(scope, ()), scope, change, drain_id=drain_id)
            listed, unlisted = _listed(known.get(scope, ()), gone, new, change)
            closed += gone
            opened += listed
            if change.kind is SequenceKind.ROWS:
                came = _came_unlisted(gone, new, change)
                overflow[scope] = _Unlisted(came, unlisted + change.unlisted)
        self._overflow(overflow)
        self._remove(closed)
        if opened:
            self._connection.execute(insert(SEQUENCE_GAP), [gap._asdict() for gap in opened])

    def note_rejections(self, rejected: Sequence[RejectedBatch]) -> None:
        """Remember rejected batches by their numbers, as the last look at them found these."""
        rows = [batch._asdict() for batch in {b.rejection_id: b for b in rejected}.values()]
        if not rows:
            return
        statement = insert(SEQUENCE_REJECTION)
        found = {name: statement.excluded[name] for name in RejectedBatch._fields}
        del found["rejection_id"], found["received_at"]
        ours = [SEQUENCE_REJECTION.c.rejection_id]
        self._connection.execute(
            statement.on_conflict_do_update(index_elements=ours, set_=found), rows
        )

    def forget_rejections(self, *, received_before: datetime) -> int:
        """Forget rejected batches that came long ago and have no number of an open gap.

        Those of journals go: a gap of theirs, which is only a hint, may stay open for ever.
        """
        old = SEQUENCE_REJECTION.c.received_at < received_before
        is_telemetry = SEQUENCE_REJECTION.c.kind == SequenceKind.TELEMETRY
        is_of_gap = and_(is_telemetry, SEQUENCE_REJECTION.c.last_number <= _end_of_gap_before())
        forgotten = delete(SEQUENCE_REJECTION).where(old, is_of_gap.is_not(True))
        return self._connection.execute(forgotten).rowcount

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

    def _overflow(self, changes: Mapping[Scope, _Unlisted]) -> None:
        """Count numbers that are not listed; below none there are never any."""
        scopes = [scope for scope, change in changes.items() if any(change)]
        known = self._unlisted(scopes)
        rows = []
        for scope in scopes:
            came, added = changes[scope]
            before = known.get(scope, 0)
            if (numbers := max(before - came, 0) + added) != before:
                rows.append(dict(zip(_COUNTED, (*scope, numbers), strict=True)))
        if not rows:
            return
        statement = insert(SEQUENCE_OVERFLOW)
        self._connection.execute(
            statement.on_conflict_do_update(
                index_elements=list(SEQUENCE_OVERFLOW.primary_key),
                set_={"numbers": statement.excluded.numbers},
            ),
            rows,
        )

    def _unlisted(self, scopes: Sequence[Scope]) -> dict[Scope, int]:
        if not scopes:
            return {}
        pair = tuple_(SEQUENCE_OVERFLOW.c.device_id, SEQUENCE_OVERFLOW.c.name)
        asked = sorted({(device, name) for device, _, name, _ in scopes})
        query = select(*(SEQUENCE_OVERFLOW.c[name] for name in _COUNTED))
        rows = self._connection.execute(query.where(pair.in_(these(asked))))
        return {(device, kind, name, era): int(n) for device, kind, name, era, n in rows}


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


def _came_unlisted(gone: Iterable[Gap], new: Iterable[Gap], change: SequenceChange) -> int:
    """How many numbers came that were in no listed gap.

    Some of these may have come before, as rows of one transaction share one: so what is left of a
    count that they are taken off is never too much.
    """
    left = sum(gap.missing for gap in new) - sum(map(size_of, change.opened))
    closed = sum(gap.missing for gap in gone) - left
    return sum(map(size_of, joined_islands(change.covered))) - closed


def _narrower(gap: Gap, part: Island) -> Gap:
    return gap._replace(first_missing=part[0], last_missing=part[1])


def _listed(
    known: Sequence[Gap], gone: Sequence[Gap], new: list[Gap], change: SequenceChange
) -> tuple[list[Gap], int]:
    """Those of the new gaps that there is room for, the widest first, and the others' numbers."""
    room = MOST_GAPS - (len(known) - len(gone))
    if change.kind is SequenceKind.TELEMETRY or len(new) <= room:
        return new, 0
    widest = sorted(new, key=attrgetter("missing"), reverse=True)
    return widest[: max(room, 0)], sum(gap.missing for gap in widest[max(room, 0) :])


def _end_of_gap_before() -> ScalarSelect[int]:
    """Where the last gap ends that begins at or before the numbers of a rejected batch."""
    gap, batch = SEQUENCE_GAP.c, SEQUENCE_REJECTION.c
    query = (
        select(gap.last_missing)
        .where(*(gap[name] == batch[name] for name in SCOPE))
        .where(gap.first_missing <= batch.first_number)
        .order_by(gap.first_missing.desc())
        .limit(1)
    )
    return query.correlate(SEQUENCE_REJECTION).scalar_subquery()
