"""Schemas that nobody accepted and that are no longer part of their device's state.

A device may announce ever new ones. Here they are looked at only by key: when one of them is
accepted after all, its rows are read with the columns, and since the moment, of its announcement.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from sqlalchemy import Connection, select
from sqlalchemy.dialects.postgresql import insert

from ilyama_protocol.intake.state import BoundSchema
from ilyama_resources.postgres.governance.bindings import is_accepted
from ilyama_resources.postgres.governance.table_schemas import TableSchemas
from ilyama_resources.postgres.schema import SHELVED_SCHEMA


class ShelvedSchema(msgspec.Struct, frozen=True):
    """A schema as a lineage first announced it."""

    device_id: str
    source_table: str
    schema_hash: str
    bound: BoundSchema


class ShelvedSchemas:
    """The schemas of all devices that lie on the shelf."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, shelved: Iterable[ShelvedSchema]) -> None:
        """Put schemas there; the first announcement stays."""
        found = [*shelved]
        TableSchemas(self._connection).keep({s.schema_hash: s.bound.columns for s in found})
        rows = [
            {
                "device_id": schema.device_id,
                "source_table": schema.source_table,
                "schema_hash": schema.schema_hash,
                "holds_from": schema.bound.holds_from,
            }
            for schema in found
        ]
        if rows:
            self._connection.execute(insert(SHELVED_SCHEMA).on_conflict_do_nothing(), rows)

    def accepted(self, device_ids: Iterable[str]) -> list[tuple[str, str, str, int]]:
        """Those of devices that were accepted since: device, table, hash, and since when it holds.

        They are few, however many there are.
        """
        c = SHELVED_SCHEMA.c
        query = select(c.device_id, c.source_table, c.schema_hash, c.holds_from).where(
            c.device_id.in_([*device_ids]), is_accepted(SHELVED_SCHEMA)
        )
        rows = self._connection.execute(query.order_by(c.holds_from, c.schema_hash))
        return [(device_id, table, named, since) for device_id, table, named, since in rows]

    def since(
        self, source_table: str, schema_hash: str, *, device_ids: Iterable[str]
    ) -> dict[str, int]:
        """From when a schema holds that lies there, by device."""
        c = SHELVED_SCHEMA.c
        query = select(c.device_id, c.holds_from).where(
            c.device_id.in_([*device_ids]),
            c.source_table == source_table,
            c.schema_hash == schema_hash,
        )
        return {device_id: since for device_id, since in self._connection.execute(query)}
