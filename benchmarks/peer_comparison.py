"""Whether the other program put out what the platform did, row by row."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from benchmarks.duckdb_peer import DuckDbPeer
from ilyama_assets.tables import TABLES
from ilyama_protocol.intake.datapoints import DatapointKind
from tests.platform import Platform

COMPARED = ("raw_batches", "row_changes", "metric_datapoint", "state_datapoint")
_APART = ("drain_id", "segment_id")
"""The platform numbers its drains, and lands messages in segments of its own."""

_VALUE_COLUMNS = "owner_id, key, instance, kind, value_double, value_text, ts, contributors"


def assert_same_output(platform: Platform, other: Path, peer: DuckDbPeer) -> None:
    """Fail when a table, or a current value in Postgres, differs."""
    assert_same_tables(platform.settings.warehouse, other, COMPARED)
    _assert_same_values(duckdb.connect(), platform, peer)


def assert_same_tables(ours: Path, theirs: Path, tables: Iterable[str]) -> None:
    """Fail when a table of one warehouse has other rows than that of another."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'").fetchall()
    for table in tables:
        names = [name for name in TABLES[table].schema.names if name not in _APART]
        found = [_digest(connection, root / table, names) for root in (ours, theirs)]
        assert found[0] == found[1], f"{table} differs: {found[0]} and {found[1]}"


def _digest(
    connection: duckdb.DuckDBPyConnection, location: Path, names: list[str]
) -> tuple[int, int]:
    """How many rows there are, and a sum over all of them in which order does not matter."""
    texts = ", ".join(f'"{name}"' for name in names if name != "day")
    query = (
        f"SELECT count(*), sum(hash(({texts}, day::VARCHAR))::HUGEINT) "
        "FROM read_parquet($files, hive_partitioning = true)"
    )
    files = DeltaTable(location).file_uris()
    (found,) = connection.execute(query, {"files": files}).fetchall()
    return found[0], found[1]


def _assert_same_values(
    connection: duckdb.DuckDBPyConnection, platform: Platform, peer: DuckDbPeer
) -> None:
    ours, theirs = _served(platform), peer.current_values()
    connection.register("ours", ours)
    connection.register("theirs", theirs)
    query = (
        f"SELECT count(*) FROM (SELECT {_VALUE_COLUMNS} FROM ours EXCEPT ALL "
        f"SELECT {_VALUE_COLUMNS} FROM theirs)"
    )
    ((missing,),) = connection.execute(query).fetchall()
    assert ours.num_rows == theirs.num_rows
    assert missing == 0, f"{missing} current values differ"


def _served(platform: Platform) -> pa.Table:
    devices = DeltaTable(platform.settings.warehouse / "raw_batches").to_pyarrow_dataset()
    owners = devices.to_table(columns=["device_id"])["device_id"].unique().to_pylist()
    with platform.gateway.transaction() as tx:
        records = list(tx.current_values.of_owners(owners))
    assert {record.kind for record in records} <= {kind.value for kind in DatapointKind}
    names = _VALUE_COLUMNS.split(", ")
    return pa.table({name: [getattr(record, name) for record in records] for name in names})
