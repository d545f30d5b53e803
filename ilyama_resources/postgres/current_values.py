"""Current values as they are served: a projection that every drain brings up to date."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa
from sqlalchemy import Connection, Select, delete, func, literal, select, tuple_
from sqlalchemy.dialects.postgresql import insert

from ilyama_resources.postgres.copying import copied_arrow
from ilyama_resources.postgres.pairs import these
from ilyama_resources.postgres.schema import CURRENT_VALUE, LINEAGE

Lineage = tuple[str, str]
"""(device_id, source_table)."""


class CurrentValueRecord(NamedTuple):
    """A current value as Postgres holds it."""

    identity: str
    owner_kind: str
    owner_id: str
    key: str
    instance: str
    provenance: str
    kind: str
    value_double: float | None
    value_text: str | None
    ts: datetime
    source: str
    policy: str
    contributors: str
    updated_at: datetime
    source_table: str
    drain_id: int


_FIELDS = [CURRENT_VALUE.c[name] for name in CurrentValueRecord._fields]


class CurrentValues:
    """The current values of served lineages.

    A lineage with very many instances is a log rather than a state: it is not served from here.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def unserved(self, lineages: Iterable[Lineage]) -> set[Lineage]:
        """Those of the given lineages that are not served from Postgres."""
        query = select(LINEAGE.c.device_id, LINEAGE.c.source_table).where(
            LINEAGE.c.served.is_(False),
            tuple_(LINEAGE.c.device_id, LINEAGE.c.source_table).in_(these(lineages)),
        )
        return {(device_id, table) for device_id, table in self._connection.execute(query)}

    def stop_serving(self, lineages: Iterable[Lineage]) -> None:
        """Take lineages out of Postgres for good."""
        gone = list(lineages)
        if not gone:
            return
        rows = [{"device_id": d, "source_table": t, "served": False} for d, t in gone]
        statement = insert(LINEAGE)
        self._connection.execute(
            statement.on_conflict_do_update(
                index_elements=["device_id", "source_table"], set_={"served": False}
            ),
            rows,
        )
        lineage = tuple_(CURRENT_VALUE.c.owner_id, CURRENT_VALUE.c.source_table)
        self._connection.execute(delete(CURRENT_VALUE).where(lineage.in_(these(gone))))

    def advance(self, values: pa.Table, *, drain_id: int) -> None:
        """Store values that are newer than what is there."""
        incoming = copied_arrow(self._connection, CURRENT_VALUE, values)
        names = [*values.column_names, "updated_at", "drain_id"]
        given = [incoming.c[name] for name in values.column_names]
        statement = insert(CURRENT_VALUE).from_select(
            names, select(*given, func.now(), literal(drain_id))
        )
        self._connection.execute(
            statement.on_conflict_do_update(
                index_elements=["identity"],
                set_={
                    column.name: statement.excluded[column.name]
                    for column in CURRENT_VALUE.columns
                    if not column.primary_key
                },
                where=statement.excluded.ts > CURRENT_VALUE.c.ts,
            )
        )

    def crowded(self, lineages: Iterable[Lineage], *, limit: int) -> set[Lineage]:
        """Those of the given lineages that have more instances than the limit."""
        lineage = (CURRENT_VALUE.c.owner_id, CURRENT_VALUE.c.source_table)
        query = (
            select(*lineage)
            .where(tuple_(*lineage).in_(these(lineages)))
            .group_by(*lineage)
            .having(func.count(CURRENT_VALUE.c.instance.distinct()) > limit)
        )
        return {(device_id, table) for device_id, table in self._connection.execute(query)}

    def of_owners(self, owner_ids: Iterable[str]) -> Iterator[CurrentValueRecord]:
        """The values of some owners."""
        query = select(*_FIELDS).where(CURRENT_VALUE.c.owner_id.in_(list(owner_ids)))
        return self._stream(query)

    def of_device(self, device_id: str, *, key_prefix: str = "") -> list[CurrentValueRecord]:
        """The values of one device."""
        query = select(*_FIELDS).where(
            CURRENT_VALUE.c.owner_id == device_id,
            CURRENT_VALUE.c.key.startswith(key_prefix, autoescape=True),
        )
        return list(self._stream(query.order_by(CURRENT_VALUE.c.key, CURRENT_VALUE.c.instance)))

    def unserved_of(self, device_ids: Iterable[str]) -> set[Lineage]:
        """The lineages of some devices that are not served from Postgres."""
        query = select(LINEAGE.c.device_id, LINEAGE.c.source_table).where(
            LINEAGE.c.served.is_(False), LINEAGE.c.device_id.in_(list(device_ids))
        )
        rows = self._connection.execute(query)
        return {(device_id, table) for device_id, table in rows}

    def _stream(self, query: Select[tuple[object, ...]]) -> Iterator[CurrentValueRecord]:
        rows = self._connection.execution_options(yield_per=10_000).execute(query)
        return (CurrentValueRecord(*row) for row in rows)
