"""Tables are kept as the platform of today wants them."""

from pathlib import Path

import pytest
from deltalake import DeltaTable

from ilyama_assets.tables import METRIC_DATAPOINT
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
