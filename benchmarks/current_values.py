"""Ratio 10: the current values of the whole fleet, against recomputing them.

Both sides are DuckDB over the files of Delta tables, as an analyst would ask: one reads the Delta
form of `current_value`, the other takes the newest of all datapoints.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from benchmarks.correctness import assert_news_are_right
from benchmarks.history import History, shared_history
from benchmarks.measuring import Figure, Measured, always, interleaved
from benchmarks.workbench import MILLION, Workbench
from ilyama_assets.derived import DerivedTable
from ilyama_assets.drains.protocol import Intake
from ilyama_assets.tables import CURRENT_VALUE, METRIC_DATAPOINT, STATE_DATAPOINT
from ilyama_assets.transforms.current_values import newest_per_key
from ilyama_assets.transforms.newest_points import IDENTITY, newest_points_of_drains

ROWS_OF_HISTORY = int(6.4 * MILLION)
"""Row changes, as in the other ratios: each gives a datapoint for every column."""

_TELLING_DRAINS = 2
"""The newest of a history just grown: a copy with the keys of all others, and the real one."""

_POINTS = (METRIC_DATAPOINT.name, STATE_DATAPOINT.name)
_SELECTED = "owner_id, key, instance, kind, value_double, value_text, ts"
_RECOMPUTED = """
SELECT owner_id, key, instance, 'metric' AS kind, arg_max_null(value, ts) AS value_double,
       NULL::VARCHAR AS value_text, max(ts) AS ts
FROM read_parquet($metrics) WHERE NOT late GROUP BY owner_id, key, instance
UNION ALL
SELECT owner_id, key, instance, 'state', NULL, arg_max_null(value, ts), max(ts)
FROM read_parquet($states) WHERE NOT late GROUP BY owner_id, key, instance
"""


def measure(bench: Workbench) -> Measured:
    """Read the table, and recompute it, by turns."""
    history = shared_history(bench, ROWS_OF_HISTORY)
    derive(history.intake, newest=None if bench.scale.thorough else _TELLING_DRAINS)
    warehouse, connection = history.platform.settings.warehouse, duckdb.connect()
    _assert_right(history, connection)
    measured = interleaved(
        always(lambda: _as_stored(connection, warehouse)),
        always(lambda: _recomputed(connection, warehouse)),
        rounds=bench.scale.query_rounds,
    )
    files = [file for name in _POINTS for file in history.intake.warehouse.files(name)]
    return measured.with_figures(
        Figure("rows of history", history.rows, ""),
        Figure("current values", _as_stored(connection, warehouse).num_rows, ""),
        Figure("datapoints", sum(file.rows for file in files), ""),
    )


def derive(intake: Intake, *, newest: int | None = None) -> None:
    """Bring the Delta form of current values up to the newest drain, as its asset does.

    Whoever knows that the newest drains have all keys need not have the others read.
    """
    session, warehouse = intake.session(), intake.warehouse
    table = DerivedTable(CURRENT_VALUE, intake.gateway, warehouse, session)
    with table.next_run() as run:
        settings = intake.settings
        telling = run if newest is None else run._replace(from_drain=run.to_drain + 1 - newest)
        points = newest_points_of_drains(session, warehouse, telling, tasks=settings.cores)
        values = newest_per_key(points, stale_after_h=settings.stale_after_h)
        table.merge(values, run, on=IDENTITY, newer="ts")


def _as_stored(connection: duckdb.DuckDBPyConnection, warehouse: Path) -> pa.Table:
    query = f"SELECT {_SELECTED} FROM read_parquet($files)"
    files = _files(warehouse, CURRENT_VALUE.name)
    return connection.sql(query, params={"files": files}).to_arrow_table()


def _recomputed(connection: duckdb.DuckDBPyConnection, warehouse: Path) -> pa.Table:
    files = {
        name: _files(warehouse, table)
        for name, table in zip(("metrics", "states"), _POINTS, strict=True)
    }
    return connection.sql(_RECOMPUTED, params=files).to_arrow_table()


def _files(warehouse: Path, table: str) -> list[str]:
    return DeltaTable(warehouse / table).file_uris()


def _assert_right(history: History, connection: duckdb.DuckDBPyConnection) -> None:
    """The newest drain is the oracle's, and both sides say the same of all."""
    assert_news_are_right(history.platform, history.messages, since=history.messages[-1])
    order = [(name, "ascending") for name in IDENTITY if name in _SELECTED.split(", ")]
    warehouse = history.platform.settings.warehouse
    stored = _as_stored(connection, warehouse).sort_by(order)
    recomputed = _recomputed(connection, warehouse).sort_by(order)
    assert stored.num_rows > 0
    assert stored.equals(recomputed.cast(stored.schema))
