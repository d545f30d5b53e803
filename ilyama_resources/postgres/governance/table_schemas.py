"""The columns behind schema hashes: kept once for all devices, whoever announced them.

A hash covers the name of its table. Who sends it for another table has not told that one's columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

import msgspec
from sqlalchemy import Connection, select
from sqlalchemy.dialects.postgresql import insert

from ilyama_protocol.fingerprint import SchemaColumn, schema_hash
from ilyama_resources.postgres.pairs import those_not_in
from ilyama_resources.postgres.schema import TABLE_SCHEMA

Columns = tuple[SchemaColumn, ...]
"""The columns of a table."""

Place = tuple[str, str]
"""A table, and the hash of a schema that somebody sent for it."""

_REMEMBERED = 4_096
_decoder = msgspec.json.Decoder(Columns)


class TableSchemas:
    """The schemas that devices have sent."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def of(self, hashes: Iterable[str]) -> dict[str, Columns]:
        """The columns behind those of the hashes that are known."""
        query = select(TABLE_SCHEMA.c.schema_hash, TABLE_SCHEMA.c.columns)
        rows = self._connection.execute(query.where(TABLE_SCHEMA.c.schema_hash.in_([*hashes])))
        return {named: _decoder.decode(columns) for named, columns in rows}

    def of_tables(self, places: Iterable[Place]) -> dict[Place, Columns]:
        """The same by table, where they are columns of it."""
        wanted = {*places}
        known = self.of({named for _, named in wanted}) if wanted else {}
        return {
            (table, named): known[named]
            for table, named in wanted
            if named in known and _fingerprint(table, known[named]) == named
        }

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


@lru_cache(_REMEMBERED)
def _fingerprint(source_table: str, columns: Columns) -> str:
    return schema_hash(source_table, columns)
