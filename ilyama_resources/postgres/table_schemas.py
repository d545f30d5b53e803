"""The columns behind schema hashes: kept once for all devices, whoever announced them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from sqlalchemy import Connection, select
from sqlalchemy.dialects.postgresql import insert

from ilyama_protocol.fingerprint import SchemaColumn
from ilyama_resources.postgres.pairs import those_not_in
from ilyama_resources.postgres.schema import TABLE_SCHEMA

Columns = tuple[SchemaColumn, ...]
"""The columns of a table."""

_decoder = msgspec.json.Decoder(Columns)


class TableSchemas:
    """The schemas that devices have sent."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def of(self, hashes: Iterable[str]) -> dict[str, Columns]:
        """The columns behind those of the hashes that are known."""
        query = select(TABLE_SCHEMA.c.schema_hash, TABLE_SCHEMA.c.columns)
        rows = self._connection.execute(query.where(TABLE_SCHEMA.c.schema_hash.in_([*hashes])))
        return {schema_hash: _decoder.decode(columns) for schema_hash, columns in rows}

    def keep(self, schemas: Mapping[str, Columns]) -> None:
        """Keep the columns behind hashes that are new."""
        if not schemas:
            return
        new = self._connection.scalars(those_not_in(TABLE_SCHEMA.c.schema_hash, schemas))
        rows = [
            {"schema_hash": name, "columns": msgspec.json.encode(schemas[name]).decode()}
            for name in sorted(new)
        ]
        if rows:
            self._connection.execute(insert(TABLE_SCHEMA).on_conflict_do_nothing(), rows)
