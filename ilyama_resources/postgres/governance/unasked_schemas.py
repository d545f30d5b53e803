"""Schemas of which rows wait for a review that nobody was asked for, because too many were.

They need no record of their own: the totals of what was staged with them tell which they are.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    exists,
    func,
    literal,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from ilyama_protocol.governance.classification import SchemaClass
from ilyama_protocol.intake.lineage_rulings import StagingReason
from ilyama_protocol.moments import micros
from ilyama_resources.postgres.copying import shown
from ilyama_resources.postgres.current_instances import Lineage
from ilyama_resources.postgres.governance.bindings import is_accepted
from ilyama_resources.postgres.governance.table_schemas import Place, TableSchemas
from ilyama_resources.postgres.pairs import these
from ilyama_resources.postgres.schema import (
    DEVICE,
    SCHEMA_QUESTION,
    SCHEMA_REVIEW,
    SHELVED_SCHEMA,
    STAGED_BACKLOG,
    STAGED_TOTAL,
    TABLE_SCHEMA,
)
from ilyama_resources.postgres.staged_totals import is_of_total

_T, _Q, _S = STAGED_TOTAL.c, SCHEMA_QUESTION.c, SHELVED_SCHEMA.c
_SCHEMA = ("device_id", "source_table", "schema_hash")
_NO_EVIDENCE = '{"diff":{},"last_accepted":null}'


class UnaskedSchemas:
    """The schemas that rows wait with, and nobody was asked about."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def count(self, lineage: Lineage | None = None) -> int:
        """How many there are, of one lineage or of all."""
        found = _unasked()
        if lineage is not None:
            device_id, table = map(shown, lineage)
            found = found.where(_T.device_id == device_id, _T.source_table == table)
        query = select(func.count()).select_from(found.subquery())
        return int(self._connection.scalar(query) or 0)

    def ask(self, lineages: Select[Any], *, most: int) -> None:
        """Make them questions, the oldest first, as far as so many may wait of a lineage.

        Their columns are those that somebody announced. How they compare with others was not kept:
        their class is unknown.
        """
        places = _in_turn().where(tuple_(_T.device_id, _T.source_table).in_(lineages)).subquery()
        rows = select(places).where(places.c.place + _waiting_of(places) <= most).subquery()
        known = rows.outerjoin(
            SHELVED_SCHEMA, and_(*(_S[name] == rows.c[name] for name in _SCHEMA))
        )
        known = known.outerjoin(DEVICE, DEVICE.c.device_id == rows.c.device_id)
        known = known.outerjoin(TABLE_SCHEMA, TABLE_SCHEMA.c.schema_hash == rows.c.schema_hash)
        values = {
            **{name: rows.c[name] for name in _SCHEMA},
            "schema_class": literal(SchemaClass.UNKNOWN.value),
            "columns": TABLE_SCHEMA.c.columns,
            "seen_columns": literal("[]"),
            "evidence": literal(_NO_EVIDENCE),
            "firmware_version": func.coalesce(DEVICE.c.firmware_version, "unknown"),
            "first_received_at": func.coalesce(_S.holds_from, _now()),
            "opened_by": rows.c.drain_id,
        }
        chosen = select(*values.values()).select_from(known)
        statement = insert(SCHEMA_QUESTION).from_select([*values], chosen)
        asked = statement.on_conflict_do_nothing().returning(_Q.source_table, _Q.schema_hash)
        self._leave_out({(table, named) for table, named in self._connection.execute(asked)})

    def _leave_out(self, places: set[Place]) -> None:
        """Take away what their hashes say of other tables."""
        others = places - TableSchemas(self._connection).of_tables(places).keys()
        if others:
            place = tuple_(_Q.source_table, _Q.schema_hash)
            foreign = (place.in_(these(others)), _Q.columns.is_not(None))
            self._connection.execute(update(SCHEMA_QUESTION).where(*foreign).values(columns=None))


def _unasked(*more: ColumnElement[Any]) -> Select[Any]:
    """Each such schema once."""
    key = [_T[name] for name in _SCHEMA]
    asked = (
        exists().where(*(table.c[name] == _T[name] for name in _SCHEMA))
        for table in (SCHEMA_REVIEW, SCHEMA_QUESTION)
    )
    return select(*key, *more).where(
        _T.staging_reason == StagingReason.SCHEMA_REVIEW,
        *(~is_asked for is_asked in asked),
        ~is_accepted(STAGED_TOTAL),
    )


def _in_turn() -> Select[Any]:
    """Each with the drain of its first rows, and with its place among those of its lineage."""
    device_id, table, schema_hash = (_T[name] for name in _SCHEMA)
    drain_id = _first_drain()
    place = func.row_number().over(
        partition_by=(device_id, table), order_by=(drain_id, schema_hash)
    )
    return _unasked(drain_id.label("drain_id"), place.label("place"))


def _first_drain() -> ColumnElement[int]:
    """The drain that set aside the first of what a total sums up."""
    return (
        select(func.min(STAGED_BACKLOG.c.drain_id))
        .where(STAGED_BACKLOG.c.released_in.is_(None), *is_of_total(STAGED_BACKLOG))
        .correlate(STAGED_TOTAL)
        .scalar_subquery()
    )


def _waiting_of(places: Any) -> Any:
    lineage = (_Q.device_id == places.c.device_id, _Q.source_table == places.c.source_table)
    return select(func.count()).select_from(SCHEMA_QUESTION).where(*lineage).scalar_subquery()


def _now() -> int:
    return micros(datetime.now(UTC))
