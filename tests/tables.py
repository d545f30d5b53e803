"""The platform's tables and the oracle's, in one shape, so that they can be compared row by row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from tests.oracle import Event, Oracle

Row = dict[str, Any]
TABLES = (
    "raw_batches",
    "rejected_batches",
    "row_changes",
    "staged_rows",
    "telemetry_samples",
    "schema_observations",
    "key_conflicts",
    "batch_ledger",
    "metric_datapoint",
    "state_datapoint",
    "quarantined_datapoints",
    "current_value",
)

NOT_OF_STAGING = tuple(table for table in TABLES if table not in ("staged_rows", "batch_ledger"))
"""The tables that are the same however long rows were staged."""


def expected_tables(events: Iterable[Event], **policies: Any) -> dict[str, list[Row]]:
    """What the oracle says of a stream."""
    oracle = Oracle(**policies)
    for event in events:
        oracle.feed(event)
    return oracle.tables() | {"gaps": oracle.gaps()}


def stored_rows(warehouse: Path, table: str) -> list[Row]:
    """A Delta table as plain rows."""
    return plain_rows(pa.table(DeltaTable(warehouse / table).to_pyarrow_table()))


def plain_rows(rows: pa.Table) -> list[Row]:
    """Rows with moments as microseconds and days as text."""
    for index, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type):
            rows = rows.set_column(index, field.name, rows[field.name].cast(pa.int64()))
        elif pa.types.is_date(field.type):
            rows = rows.set_column(index, field.name, rows[field.name].cast(pa.string()))
    return list(rows.to_pylist())


def assert_warehouse_equals_oracle(warehouse: Path, expected: Mapping[str, list[Row]]) -> None:
    """Fail with the first differences when any Delta table is not what the oracle says."""
    assert_equals_oracle({table: stored_rows(warehouse, table) for table in TABLES}, expected)


def assert_equals_oracle(
    stored: Mapping[str, list[Row]], expected: Mapping[str, list[Row]]
) -> None:
    """Fail with the first differences when any of the given tables is not what it should be."""
    for table, rows in stored.items():
        wanted = expected[table]
        found = summed_conflicts(rows) if table == "key_conflicts" else rows
        assert len(found) == len(wanted), f"{table}: {len(found)} rows, expected {len(wanted)}"
        missing, unexpected = _difference(wanted, found)
        assert not missing, f"{table} lacks {missing[:3]}; has instead {unexpected[:3]}"


def summed_conflicts(conflicts: list[Row]) -> list[Row]:
    totals: Counter[tuple[Any, ...]] = Counter()
    names = ("kind", "device_id", "source_table", "key", "first", "other")
    for row in conflicts:
        totals[tuple(row[name] for name in names)] += row["arrivals"]
    return [dict(zip(names, key, strict=True)) | {"arrivals": n} for key, n in totals.items()]


def _difference(wanted: list[Row], found: list[Row]) -> tuple[list[Row], list[Row]]:
    """The rows that only one side has; of what was found, those columns count that are wanted."""
    columns = list(wanted[0]) if wanted else []
    assert all(row.keys() == wanted[0].keys() for row in wanted)
    theirs, ours = (_identities(rows, columns) for rows in (wanted, found))
    return _surplus(wanted, theirs, ours), _surplus(found, ours, theirs)


def _identities(rows: list[Row], columns: list[str]) -> list[str]:
    """Rows as texts that tell -0.0 from 0.0 and 1 from 1.0."""
    values = itemgetter(*columns) if columns else len
    return [repr(values(row)) for row in rows]


def _surplus(rows: list[Row], identities: list[str], others: list[str]) -> list[Row]:
    surplus = Counter(identities) - Counter(others)
    by_identity = dict(zip(identities, rows, strict=True)) if surplus else {}
    return [by_identity[identity] for identity in surplus]
