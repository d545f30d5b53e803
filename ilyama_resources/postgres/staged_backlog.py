"""What drains have set aside: how much, of which lineage, why, and whether it was released."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Connection,
    Subquery,
    Text,
    Update,
    and_,
    any_,
    delete,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    true,
    tuple_,
    update,
)

from ilyama_protocol.intake.lineage_rulings import StagingReason
from ilyama_resources.postgres.copying import copied
from ilyama_resources.postgres.current_instances import Lineage
from ilyama_resources.postgres.governance.bindings import is_accepted, is_refused
from ilyama_resources.postgres.pairs import these
from ilyama_resources.postgres.schema import DRAIN, STAGED_BACKLOG, STAGED_TOTAL
from ilyama_resources.postgres.staged_totals import (
    KEY,
    StagedTotals,
    free_totals,
    is_of_total,
    is_ready,
)


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
_OF_TOTAL = [STAGED_BACKLOG.c[name] for name in KEY]
_BY_DRAIN = [STAGED_BACKLOG.c[name] for name in ("drain_id", *KEY)]
_UNTOUCHED = (False, None, False)
_IS_STAGED = STAGED_BACKLOG.c.released_in.is_(None)
_SIZES = [
    func.coalesce(func.sum(STAGED_TOTAL.c[name]), 0).cast(BigInteger) for name in ("rows", "bytes")
]


class StagedBacklog:
    """The sums over everything that was set aside."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._totals = StagedTotals(connection)

    def add(self, sums: Iterable[StagedSum]) -> None:
        """Note what a drain has set aside."""
        rows = [(*found, *_UNTOUCHED) for found in sums]
        if rows:
            self._totals.alone()
            incoming = copied(self._connection, STAGED_BACKLOG, rows)
            columns = [column.name for column in incoming.columns]
            self._connection.execute(insert(STAGED_BACKLOG).from_select(columns, select(incoming)))
            self._totals.add(incoming)

    def tables_of(self, device_ids: Iterable[str]) -> dict[str, list[str]]:
        """The tables of devices of which rows wait for nothing but their turn, or a resume."""
        reason = STAGED_TOTAL.c.staging_reason
        # Nobody knows whether what was not accepted will ever come.
        accepted = and_(reason == StagingReason.SCHEMA_REVIEW, is_accepted(STAGED_TOTAL))
        paused = and_(reason == StagingReason.LINEAGE_PAUSED, ~is_refused(STAGED_TOTAL))
        waits = or_(paused, accepted)
        query = (
            select(STAGED_TOTAL.c.device_id, STAGED_TOTAL.c.source_table)
            .where(STAGED_TOTAL.c.ready_sums > 0, waits, _is_of_devices(device_ids))
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
        staged = and_(STAGED_TOTAL.c.device_id == device_id, STAGED_TOTAL.c.source_table == table)
        query = (
            select(device_id, table, *_SIZES)
            .select_from(wanted.outerjoin(STAGED_TOTAL, staged))
            .group_by(device_id, table)
        )
        return [BacklogSize(*row) for row in self._connection.execute(query)]

    def retry(self, reason: StagingReason, lineage: Lineage | None = None) -> list[int]:
        """Ask for another attempt at what failed, of one lineage or of all; the rows of each total.

        One of messages that cannot be read has no rows, but is one. What a release did not find
        is looked for again.
        """
        self._totals.alone()
        failed = or_(STAGED_BACKLOG.c.staging_reason == reason, STAGED_BACKLOG.c.missing)
        statement = update(STAGED_BACKLOG).values(retry=True, missing=False)
        statement = statement.where(_IS_STAGED, failed)
        if lineage is not None:
            place = tuple_(STAGED_BACKLOG.c.device_id, STAGED_BACKLOG.c.source_table)
            statement = statement.where(place.in_(these([lineage])))
        retried = statement.returning(*_OF_TOTAL, STAGED_BACKLOG.c.rows).cte("retried")
        key = [retried.c[name] for name in KEY]
        rows = func.sum(retried.c.rows).cast(BigInteger)
        found = self._connection.execute(select(rows, *key).group_by(*key)).all()
        self._totals.recount((device, table, why, named) for _, device, table, why, named in found)
        return [row[0] for row in found]

    def waiting_after(self, last: StagedSum | None, *, limit: int) -> list[StagedSum]:
        """The next sums that were not released yet, whatever holds them, drain after drain."""
        query = select(*_FIELDS).where(_IS_STAGED).order_by(*_BY_DRAIN).limit(limit)
        if last is not None:
            passed = [getattr(last, column.name) for column in _BY_DRAIN]
            query = query.where(tuple_(*_BY_DRAIN) > tuple_(*passed))
        return [StagedSum(*row) for row in self._connection.execute(query)]

    def forget(self, *, released_before: datetime) -> None:
        """Remove the sums of what was released long ago."""
        drain = select(DRAIN.c.drain_id).where(DRAIN.c.closed_at < released_before)
        gone = delete(STAGED_BACKLOG).where(STAGED_BACKLOG.c.released_in.in_(drain))
        self._connection.execute(gone)

    def free(self) -> FreeRows:
        """How much could be released now."""
        free = free_totals().subquery()
        lineage = func.concat_ws("\x1f", free.c.device_id, free.c.source_table)
        sums = [func.coalesce(func.sum(free.c[f"ready_{name}"]), 0) for name in ("rows", "bytes")]
        query = select(func.count(lineage.distinct()), *sums)
        lineages, rows, size = self._connection.execute(query).one()
        return FreeRows(lineages, int(rows), int(size))

    def can_release(self) -> bool:
        """Whether a release would find anything: totals alone are not believed."""
        return bool(self._connection.scalar(select(exists(select(_free_sums())))))

    def releasable(self, *, at_most_bytes: int) -> list[StagedSum]:
        """What can be released now, in turn: one lineage at least, then up to a size.

        What one drain staged of a lineage stays together: its order would be lost between two.
        """
        sums = _free_sums()
        together = [sums.c[name] for name in ("drain_id", "device_id", "source_table")]
        turn = func.min(sums.c.turn).over(partition_by=together)
        free = select(sums, turn.label("first")).subquery()
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
    ) -> list[BacklogSize]:
        """How much is set aside of one schema of each of some devices."""
        lineage = (STAGED_TOTAL.c.device_id, STAGED_TOTAL.c.source_table)
        query = select(*lineage, *_SIZES).where(
            STAGED_TOTAL.c.source_table == source_table,
            STAGED_TOTAL.c.schema_hash == schema_hash,
            _is_of_devices(device_ids),
        )
        rows = self._connection.execute(query.group_by(*lineage).order_by(*lineage))
        return [BacklogSize(*row) for row in rows]

    def oldest_of_schema(
        self,
        source_table: str,
        schema_hash: str,
        *,
        device_ids: Iterable[str],
        rows: int,
        most: int,
    ) -> list[StagedSum]:
        """The first sums of one schema: of each device until they have so many rows.

        The oldest are first, and there are no more than the most of them.
        """
        before = func.sum(STAGED_BACKLOG.c.rows).over(order_by=STAGED_BACKLOG.c.drain_id)
        oldest = (
            select(*_FIELDS, (before - STAGED_BACKLOG.c.rows).label("before"))
            .where(_IS_STAGED, *is_of_total(STAGED_BACKLOG))
            .order_by(STAGED_BACKLOG.c.drain_id)
            .limit(rows)
            .lateral("oldest")
        )
        found = select(*(oldest.c[name] for name in StagedSum._fields)).where(
            STAGED_TOTAL.c.source_table == source_table,
            STAGED_TOTAL.c.schema_hash == schema_hash,
            _is_of_devices(device_ids),
            oldest.c.before < rows,
        )
        query = found.select_from(STAGED_TOTAL.join(oldest, true()))
        in_order = query.order_by(*(oldest.c[column.name] for column in _BY_DRAIN)).limit(most)
        return [StagedSum(*row) for row in self._connection.execute(in_order)]

    def release(self, released: Iterable[StagedSum], *, drain_id: int) -> None:
        """Note which drain has materialized what."""
        marked = self._marked(released, released_in=drain_id)
        if marked is not None:
            told = [STAGED_BACKLOG.c[name] for name in ("rows", "bytes", "retry", "missing")]
            self._totals.take_off(marked.returning(*_OF_TOTAL, *told).cte("released"))

    def miss(self, sums: Iterable[StagedSum]) -> None:
        """Note what a release did not find; it is not chosen again until somebody asks."""
        marked = self._marked(sums, missing=True)
        if marked is not None:
            keys = {tuple(row) for row in self._connection.execute(marked.returning(*_OF_TOTAL))}
            self._totals.recount((device, table, why, named) for device, table, why, named in keys)

    def _marked(self, sums: Iterable[StagedSum], **values: int) -> Update | None:
        """The statement that marks sums as far as they were not released; nothing without any."""
        rows = [(*found, *_UNTOUCHED) for found in sums]
        if not rows:
            return None
        self._totals.alone()
        chosen = copied(self._connection, STAGED_BACKLOG, rows)
        same = [STAGED_BACKLOG.c[name] == chosen.c[name] for name in _KEY]
        return update(STAGED_BACKLOG).values(**values).where(_IS_STAGED, *same)


def _is_of_devices(device_ids: Iterable[str]) -> ColumnElement[bool]:
    """Whether a total is of one of them; a long list would be refused."""
    return STAGED_TOTAL.c.device_id == any_(literal([*device_ids], ARRAY(Text)))


def _free_sums() -> Subquery:
    """The sums that nothing holds, total by total: they may be few beside those that are held."""
    total = free_totals().subquery()
    same = [STAGED_BACKLOG.c[name] == total.c[name] for name in KEY]
    of_total = select(*_FIELDS).where(_IS_STAGED, is_ready(STAGED_BACKLOG), *same)
    # What has an offset is looked up as it is written, and not joined with all sums.
    found = of_total.offset(0).lateral("of_total")
    return select(found).select_from(total.join(found, true())).subquery()
