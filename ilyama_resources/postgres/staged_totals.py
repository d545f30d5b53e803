"""The totals of what is staged, kept beside its sums: who asks how much, asks for few lines.

A lineage under review adds sums with every drain and keeps them until somebody decides. What looks
at all lineages, or at one as a whole, must not cost more with each of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    FromClause,
    Select,
    and_,
    delete,
    exists,
    func,
    or_,
    select,
    text,
    union_all,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from ilyama_protocol.intake.lineage_rulings import (
    DECIDED,
    HELD_BY,
    RETRIED_ON_REQUEST,
    StagingReason,
)
from ilyama_resources.postgres.copying import copied
from ilyama_resources.postgres.governance.bindings import is_accepted, is_refused
from ilyama_resources.postgres.schema import LINEAGE_PAUSE, STAGED_BACKLOG, STAGED_TOTAL

TotalKey = tuple[str, str, str, str]
"""(device_id, source_table, staging_reason, schema_hash)."""

KEY = [column.name for column in STAGED_TOTAL.primary_key]
_MEASURES = [c.name for c in STAGED_TOTAL.columns if c.name not in KEY]
_LOCK = "SELECT pg_advisory_xact_lock(hashtext('ilyama staged totals'))"


class StagedTotals:
    """Keeps the totals; whoever changes sums says so in the same transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def alone(self) -> None:
        """Let nobody else change sums until the transaction ends: two could wait for each other."""
        self._connection.execute(text(_LOCK))

    def add(self, sums: FromClause) -> None:
        """Count sums that are new."""
        statement = insert(STAGED_TOTAL).from_select([*KEY, *_MEASURES], _measured(sums))
        both = {n: STAGED_TOTAL.c[n] + statement.excluded[n] for n in _MEASURES}
        self._connection.execute(statement.on_conflict_do_update(index_elements=KEY, set_=both))

    def take_off(self, sums: FromClause) -> None:
        """Count sums no longer; they are as they were before they were released."""
        gone = _measured(sums).cte("gone")
        left = {name: STAGED_TOTAL.c[name] - gone.c[name] for name in _MEASURES}
        statement = update(STAGED_TOTAL).values(left).where(*is_of_total(gone))
        emptied = statement.returning(*(STAGED_TOTAL.c[n] for n in KEY), STAGED_TOTAL.c.sums)
        self._forget([key for *key, sums in self._connection.execute(emptied) if not sums])

    def recount(self, keys: Iterable[TotalKey]) -> None:
        """Add up some totals anew."""
        chosen = self._forget(keys)
        sums = select(STAGED_BACKLOG).where(
            STAGED_BACKLOG.c.released_in.is_(None),
            *(STAGED_BACKLOG.c[name] == chosen.c[name] for name in KEY),
        )
        self.add(sums.subquery())

    def _forget(self, keys: Iterable[Any]) -> FromClause:
        rows = [(*key, *(0 for _ in _MEASURES)) for key in keys]
        chosen = copied(self._connection, STAGED_TOTAL, rows)
        self._connection.execute(delete(STAGED_TOTAL).where(*is_of_total(chosen)))
        return chosen


def is_of_total(sums: FromClause) -> list[ColumnElement[bool]]:
    """What tells the total of sums, or of other totals."""
    return [STAGED_TOTAL.c[name] == sums.c[name] for name in KEY]


def is_ready(sums: FromClause) -> ColumnElement[bool]:
    """Whether a sum waits for nothing but that its lineage is not held.

    What is missing, or failed, waits for a wish to retry.
    """
    failed = sums.c.staging_reason.in_([*RETRIED_ON_REQUEST])
    return and_(sums.c.missing.is_(False), or_(sums.c.retry, ~failed))


def free_totals() -> Select[Any]:
    """The totals that nothing holds.

    That is no pause, no schema that was not accepted, and none that a person rejected since.
    """
    found = union_all(*map(_free_of, HELD_BY)).subquery()
    return select(found)


def _free_of(reason: StagingReason) -> Select[Any]:
    total = STAGED_TOTAL.c
    free = [total.staging_reason == reason, total.ready_sums > 0]
    if HELD_BY[reason]:
        free.append(~_is_held(reason))
    if reason is StagingReason.SCHEMA_REVIEW:
        free.append(is_accepted(STAGED_TOTAL))
    elif reason in DECIDED:
        free.append(~is_refused(STAGED_TOTAL))
    return select(STAGED_TOTAL).where(*free)


def _is_held(reason: StagingReason) -> ColumnElement[bool]:
    return exists().where(
        LINEAGE_PAUSE.c.device_id == STAGED_TOTAL.c.device_id,
        LINEAGE_PAUSE.c.source_table == STAGED_TOTAL.c.source_table,
        LINEAGE_PAUSE.c.reason.in_(HELD_BY[reason]),
    )


def _measured(sums: FromClause) -> Select[Any]:
    """What sums that were not released add up to, by what they have in common."""
    ready = is_ready(sums)
    key = [sums.c[name] for name in KEY]
    told = [sums.c[name] for name in ("rows", "bytes")]
    return select(
        *key,
        func.count().label("sums"),
        *(_sum(func.sum(of)).label(of.name) for of in told),
        func.count().filter(ready).label("ready_sums"),
        *(_sum(func.sum(of).filter(ready)).label(f"ready_{of.name}") for of in told),
    ).group_by(*key)


def _sum(found: ColumnElement[Any]) -> ColumnElement[int]:
    return func.coalesce(found, 0).cast(BigInteger)
