"""Tables are kept as the platform of today wants them."""

from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from ilyama_assets.tables import METRIC_DATAPOINT, STAGED_ROWS
from ilyama_resources import delta
from ilyama_resources.delta import Warehouse

INTERVAL = "delta.checkpointInterval"


def test_a_table_of_an_older_release_gets_the_properties_of_today(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        before.setitem(delta.PROPERTIES, INTERVAL, "100")
        Warehouse(tmp_path, "test").ensure(METRIC_DATAPOINT)
    location = tmp_path / METRIC_DATAPOINT.name
    assert DeltaTable(location).metadata().configuration[INTERVAL] == "100"

    warehouse = Warehouse(tmp_path, "test")
    warehouse.ensure(METRIC_DATAPOINT)
    changed = warehouse.version(METRIC_DATAPOINT.name)
    warehouse.ensure(METRIC_DATAPOINT)

    configuration = DeltaTable(location).metadata().configuration
    assert configuration[INTERVAL] == delta.PROPERTIES[INTERVAL] == "10"
    assert all(
        f"delta.constraints.{name}" in configuration for name in METRIC_DATAPOINT.constraints
    )
    assert warehouse.version(METRIC_DATAPOINT.name) == changed


def test_a_table_of_an_older_release_gets_the_columns_of_today(tmp_path: Path) -> None:
    location = tmp_path / STAGED_ROWS.name
    old = pa.schema([STAGED_ROWS.schema.field(name) for name in ("error", "drain_id", "day")])
    line = {"error": ["it broke"], "drain_id": [1], "day": [date(2026, 4, 28)]}
    write_deltalake(location, pa.table(line, old), partition_by=["day"])

    warehouse = Warehouse(tmp_path, "test")
    warehouse.ensure(STAGED_ROWS)
    changed = warehouse.version(STAGED_ROWS.name)
    warehouse.ensure(STAGED_ROWS)

    (row,) = pa.table(DeltaTable(location).to_pyarrow_table()).to_pylist()
    assert {*row} == {*STAGED_ROWS.schema.names}
    assert (row["error"], row["source_pk_hash"]) == ("it broke", None)
    assert warehouse.version(STAGED_ROWS.name) == changed
