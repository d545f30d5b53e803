"""What drains have set aside: how much, of which lineage, why, and whether it was released."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    and_,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    tuple_,
    update,
)

from ilyama_protocol.intake.lineage_rulings import (
    DECIDED,
    HELD_BY,
    RETRIED_ON_REQUEST,
    StagingReason,
)
from ilyama_resources.postgres.copying import copied
from ilyama_resources.postgres.current_instances import Lineage
from ilyama_resources.postgres.governance.bindings import is_accepted, is_refused
from ilyama_resources.postgres.pairs import these
from ilyama_resources.postgres.schema import DRAIN, LINEAGE_PAUSE, STAGED_BACKLOG


class StagedSum(NamedTuple):
    """What one drain has set aside of one schema of a lineage for one reason."""

    device_id: str
    source_table: str
    staging_reason: str
    schema_hash: str
    drain_id: int
    rows: int
    bytes: int
    turn: tuple[int, ...] = ()
    """Its place among what is released; sums of older builds have none and are first."""


class FreeRows(NamedTuple):
    """What is set aside and held by nothing any more."""

    lineages: int
    rows: int
    bytes: int


class BacklogCaps(NamedTuple):
    """How much of one lineage may be staged, and below which share of that it may go on."""

    rows: int = 100_000
    bytes: int = 1024**3
    resume: float = 0.8


DEFAULT_CAPS = BacklogCaps()


class BacklogSize(NamedTuple):
    """How much of one lineage is staged."""

    device_id: str
    source_table: str
    rows: int
    bytes: int

    def exceeds(self, caps: BacklogCaps) -> bool:
        """Whether rows or bytes are more than is allowed."""
        return self.rows > caps.rows or self.bytes > caps.bytes

    def is_below(self, caps: BacklogCaps) -> bool:
        """Whether rows and bytes are low enough to go on."""
        rows, size = caps.resume * caps.rows, caps.resume * caps.bytes
        return self.rows < rows and self.bytes < size


_FIELDS = [STAGED_BACKLOG.c[name] for name in StagedSum._fields]
_KEY = StagedSum._fields[:5]
_UNTOUCHED = (False, None, False)
_IS_STAGED = STAGED_BACKLOG.c.released_in.is_(None)
_IS_THERE = STAGED_BACKLOG.c.missing.is_(False)


class StagedBacklog:
    """The sums over everything that was set aside."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, sums: Iterable[StagedSum]) -> None:
        """Note what a drain has set aside."""
        rows = [(*found, *_UNTOUCHED) for found in sums]
        if rows:
            incoming = copied(self._connection, STAGED_BACKLOG, rows)
            columns = [column.name for column in incoming.columns]
            self._connection.execute(insert(STAGED_BACKLOG).from_select(columns, select(incoming)))

    def tables_of(self, device_ids: Iterable[str]) -> dict[str, list[str]]:
        """The tables of devices of which rows wait for nothing but their turn, or a resume."""
        reason = STAGED_BACKLOG.c.staging_reason
        # Nobody knows whether what was not accepted will ever come.
        accepted = and_(reason == StagingReason.SCHEMA_REVIEW, is_accepted(STAGED_BACKLOG))
        paused = and_(reason == StagingReason.LINEAGE_PAUSED, ~is_refused(STAGED_BACKLOG))
        waits = or_(paused, accepted)
        query = (
            select(STAGED_BACKLOG.c.device_id, STAGED_BACKLOG.c.source_table)
            .where(_IS_STAGED, _IS_THERE, waits, STAGED_BACKLOG.c.device_id.in_(list(device_ids)))
            .distinct()
        )
        found: dict[str, list[str]] = {}
        for device_id, table in self._connection.execute(query):
            found.setdefault(device_id, []).append(table)
        return found

    def sizes(self, lineages: Iterable[Lineage]) -> list[BacklogSize]:
        """How much of each of the given lineages is staged; of one without anything, nothing."""
        wanted = these({*lineages}).subquery()
        device_id, table = wanted.c
        sums = [
            func.coalesce(func.sum(STAGED_BACKLOG.c[name]), 0).cast(BigInteger)
            for name in ("rows", "bytes")
        ]
        staged = and_(
            STAGED_BACKLOG.c.device_id == device_id,
            STAGED_BACKLOG.c.source_table == table,
            _IS_STAGED,
        )
        query = (
            select(device_id, table, *sums)
            .select_from(wanted.outerjoin(STAGED_BACKLOG, staged))
            .group_by(device_id, table)
        )
        return [BacklogSize(*row) for row in self._connection.execute(query)]

    def retry(self, reason: StagingReason, lineage: Lineage | None = None) -> list[int]:
        """Ask for another attempt at what failed, of one lineage or of all; the rows of each sum.

        A sum of messages that cannot be read has no rows, but is one. What a release did not find
        is looked for again.
        """
        failed = or_(STAGED_BACKLOG.c.staging_reason == reason, STAGED_BACKLOG.c.missing)
        statement = update(STAGED_BACKLOG).values(retry=True, missing=False)
        statement = statement.where(_IS_STAGED, failed)
        if lineage is not None:
            place = tuple_(STAGED_BACKLOG.c.device_id, STAGED_BACKLOG.c.source_table)
            statement = statement.where(place.in_(these([lineage])))
        return list(self._connection.scalars(statement.returning(STAGED_BACKLOG.c.rows)))

    def waiting(self) -> list[StagedSum]:
        """Everything that was not released yet, whatever holds it."""
        query = select(*_FIELDS).where(_IS_STAGED)
        rows = self._connection.execute(query.order_by(*(STAGED_BACKLOG.c[name] for name in _KEY)))
        return [StagedSum(*row) for row in rows]

    def forget(self, *, released_before: datetime) -> None:
        """Remove the sums of what was released long ago."""
        drain = select(DRAIN.c.drain_id).where(DRAIN.c.closed_at < released_before)
        gone = delete(STAGED_BACKLOG).where(STAGED_BACKLOG.c.released_in.in_(drain))
        self._connection.execute(gone)

    def free(self) -> FreeRows:
        """How much could be released now."""
        lineage = func.concat_ws("\x1f", STAGED_BACKLOG.c.device_id, STAGED_BACKLOG.c.source_table)
        sums = [func.coalesce(func.sum(STAGED_BACKLOG.c[name]), 0) for name in ("rows", "bytes")]
        query = select(func.count(lineage.distinct()), *sums).where(_IS_STAGED, _is_free())
        lineages, rows, size = self._connection.execute(query).one()
        return FreeRows(lineages, int(rows), int(size))

    def releasable(self, *, at_most_bytes: int) -> list[StagedSum]:
        """What can be released now, in turn: one lineage at least, then up to a size.

        What one drain staged of a lineage stays together: its order would be lost between two.
        """
        together = [STAGED_BACKLOG.c[name] for name in ("drain_id", "device_id", "source_table")]
        turn = func.min(STAGED_BACKLOG.c.turn).over(partition_by=together)
        free = select(*_FIELDS, turn.label("first")).where(_IS_STAGED, _is_free()).subquery()
        in_turn = [free.c.first, *(free.c[column.name] for column in together)]
        size = func.sum(free.c.bytes)
        upto = size.over(order_by=in_turn)
        before = upto - size.over(partition_by=in_turn)
        sized = select(free, upto.label("upto"), before.label("before")).subquery()
        query = select(*(sized.c[name] for name in StagedSum._fields)).where(
            or_(sized.c.before == 0, sized.c.upto <= at_most_bytes)
        )
        order = [*(column.name for column in in_turn), "turn", "staging_reason", "schema_hash"]
        rows = self._connection.execute(query.order_by(*(sized.c[name] for name in order)))
        return [StagedSum(*row) for row in rows]

    def of_schema(
        self, source_table: str, schema_hash: str, *, device_ids: Iterable[str]
    ) -> list[StagedSum]:
        """What is set aside of one schema of some devices, the oldest first."""
        query = select(*_FIELDS).where(
            _IS_STAGED,
            STAGED_BACKLOG.c.source_table == source_table,
            STAGED_BACKLOG.c.schema_hash == schema_hash,
            STAGED_BACKLOG.c.device_id.in_(list(device_ids)),
        )
        rows = self._connection.execute(query.order_by(STAGED_BACKLOG.c.drain_id, *_FIELDS[:3]))
        return [StagedSum(*row) for row in rows]

    def release(self, released: Iterable[StagedSum], *, drain_id: int) -> None:
        """Note which drain has materialized what."""
        self._mark(released, released_in=drain_id)

    def miss(self, sums: Iterable[StagedSum]) -> None:
        """Note what a release did not find; it is not chosen again until somebody asks."""
        self._mark(sums, missing=True)

    def _mark(self, sums: Iterable[StagedSum], **values: int) -> None:
        rows = [(*found, *_UNTOUCHED) for found in sums]
        if not rows:
            return
        chosen = copied(self._connection, STAGED_BACKLOG, rows)
        same = [STAGED_BACKLOG.c[name] == chosen.c[name] for name in _KEY]
        statement = update(STAGED_BACKLOG).values(**values)
        self._connection.execute(statement.where(_IS_STAGED, *same))


def _is_free() -> ColumnElement[bool]:
    """Whether nothing holds a sum: no pause that would.

    What failed, or is missing, waits for a wish to retry; a schema that was not accepted, for that,
    and one that a person rejected since, for an approval.
    """
    return and_(_IS_THERE, or_(*(_is_free_of(reason) for reason in HELD_BY)))


def _is_held(reason: StagingReason) -> ColumnElement[bool]:
    return exists().where(
        LINEAGE_PAUSE.c.device_id == STAGED_BACKLOG.c.device_id,
        LINEAGE_PAUSE.c.source_table == STAGED_BACKLOG.c.source_table,
        LINEAGE_PAUSE.c.reason.in_(HELD_BY[reason]),
    )


def _is_free_of(reason: StagingReason) -> ColumnElement[bool]:
    free = and_(STAGED_BACKLOG.c.staging_reason == reason, ~_is_held(reason))
    if reason is StagingReason.SCHEMA_REVIEW:
        return and_(free, is_accepted(STAGED_BACKLOG))
    if reason in DECIDED:
        free = and_(free, ~is_refused(STAGED_BACKLOG))
    return and_(free, STAGED_BACKLOG.c.retry) if reason in RETRIED_ON_REQUEST else free
