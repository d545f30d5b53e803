"""Tables are kept as the platform of today wants them."""

from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from ilyama_assets.tables import METRIC_DATAPOINT, STAGED_ROWS
from ilyama_resources.delta.warehouse import PROPERTIES, Warehouse

INTERVAL = "delta.checkpointInterval"
NAME = "numbers"


def test_a_table_of_an_older_release_gets_the_properties_of_today(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        before.setitem(PROPERTIES, INTERVAL, "100")
        Warehouse(tmp_path, "test").ensure(METRIC_DATAPOINT)
    location = tmp_path / METRIC_DATAPOINT.name
    assert DeltaTable(location).metadata().configuration[INTERVAL] == "100"

    warehouse = Warehouse(tmp_path, "test")
    warehouse.ensure(METRIC_DATAPOINT)
    changed = warehouse.version(METRIC_DATAPOINT.name)
    warehouse.ensure(METRIC_DATAPOINT)

    configuration = DeltaTable(location).metadata().configuration
    assert configuration[INTERVAL] == PROPERTIES[INTERVAL] == "10"
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


def _numbers(tmp_path: Path) -> Warehouse:
    for rows in ([1], [2]):
        write_deltalake(tmp_path / NAME, pa.table({"a": rows}), mode="append")
    return Warehouse(tmp_path, "test")


def test_a_table_that_is_overwritten_counts_each_number_once(tmp_path: Path) -> None:
    warehouse = _numbers(tmp_path)
    assert warehouse.overwrite(NAME, 7, lambda _: pa.table({"b": [3]}))
    assert warehouse.overwrite(NAME, 7, lambda _: pa.table({"b": [4]}))
    assert DeltaTable(tmp_path / NAME).to_pyarrow_table().to_pylist() == [{"b": 3}]
    assert not warehouse.overwrite(NAME, 8, lambda _: None)


@pytest.mark.parametrize("other", ["append", "compaction"])
def test_a_table_is_not_overwritten_behind_a_commit_that_came_meanwhile(
    tmp_path: Path, other: str
) -> None:
    warehouse, rows = _numbers(tmp_path), pa.table({"a": [9]})

    def made_while_another_commits(_: DeltaTable) -> pa.Table:
        if other == "append":
            write_deltalake(tmp_path / NAME, rows, mode="append")
        else:
            DeltaTable(tmp_path / NAME).optimize.compact()
        return rows

    with pytest.raises(CommitFailedError):
        warehouse.overwrite(NAME, 7, made_while_another_commits)
    assert warehouse.overwrite(NAME, 7, lambda _: rows)
    assert DeltaTable(tmp_path / NAME).to_pyarrow_table().to_pylist() == [{"a": 9}]
