"""Lineages as an operator sees them: active or paused, and what is staged of them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, text

from ilyama_resources.postgres.copying import shown


class LineagePlace(NamedTuple):
    """Which lineage it is, and where a page of lineages ended."""

    device_id: str
    source_table: str


class LineageEntry(NamedTuple):
    """One lineage; it is active when nothing pauses it."""

    device_id: str
    source_table: str
    pauses: list[str]
    paused_since: datetime | None
    staged_rows: int
    staged_bytes: int

    @property
    def place(self) -> LineagePlace:
        """Where a page that ends with this lineage ends."""
        return LineagePlace(self.device_id, self.source_table)


class LineageFilter(NamedTuple):
    """Which lineages are asked for; what is None does not narrow."""

    device_id: str | None = None
    source_table: str | None = None
    paused: bool | None = None


_PAGE = text(
    """
    WITH known AS (
        SELECT device_id, source_table FROM lineage
        UNION SELECT device_id, source_table FROM lineage_pause
        UNION SELECT device_id, source_table FROM staged_total
    ), paused AS (
        SELECT device_id, source_table, array_agg(reason ORDER BY reason) AS reasons,
               min(since) AS since
        FROM lineage_pause GROUP BY device_id, source_table
    ), staged AS (
        SELECT device_id, source_table, sum(rows)::bigint AS rows, sum(bytes)::bigint AS bytes
        FROM staged_total GROUP BY device_id, source_table
    )
    SELECT device_id, source_table, coalesce(reasons, ARRAY[]::text[]), since,
           coalesce(rows, 0), coalesce(bytes, 0)
    FROM known LEFT JOIN paused USING (device_id, source_table)
               LEFT JOIN staged USING (device_id, source_table)
    WHERE (CAST(:device_id AS text) IS NULL OR device_id = :device_id)
      AND (CAST(:source_table AS text) IS NULL OR source_table = :source_table)
      AND (CAST(:paused AS boolean) IS NULL OR (since IS NOT NULL) = :paused)
      AND (CAST(:after_device AS text) IS NULL
           OR (device_id, source_table) > (:after_device, :after_table))
    ORDER BY device_id, source_table LIMIT :limit
    """
)


class Lineages:
    """Everything that is known by the name of a lineage."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def page(
        self, wanted: LineageFilter, *, after: LineagePlace | None = None, limit: int
    ) -> list[LineageEntry]:
        """The next lineages in the order of device and table."""
        asked: dict[str, Any] = {
            name: shown(value) if isinstance(value, str) else value
            for name, value in wanted._asdict().items()
        }
        device_id, table = after or (None, None)
        asked |= {"after_device": device_id, "after_table": table}
        rows = self._connection.execute(_PAGE, asked | {"limit": limit})
        return [LineageEntry(*row) for row in rows]

    def find(self, device_id: str, source_table: str) -> LineageEntry:
        """One lineage; of one that nothing is known of, nothing is staged."""
        found = self.page(LineageFilter(device_id, source_table), limit=1)
        return found[0] if found else LineageEntry(device_id, source_table, [], None, 0, 0)
