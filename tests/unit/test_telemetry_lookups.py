"""Stored datapoints of telemetry are found under whatever key their column is mapped to."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ilyama_assets.drains.telemetry_lookups import _points
from ilyama_assets.tables import METRIC_DATAPOINT
from ilyama_protocol.intake.datapoints import TELEMETRY_SOURCE
from ilyama_protocol.intake.history import TelemetryNeed
from tests.unit.intake.traffic import DEVICE_ID, NOW, TABLE


def test_a_point_under_a_key_that_names_another_table_is_found(tmp_path: Path) -> None:
    names = ("owner_id", "key", "ts", "value", "source")
    stored = [
        dict(zip(names, (DEVICE_ID, "weather.temp", ts, 1.5, TELEMETRY_SOURCE), strict=True))
        for ts in (NOW, NOW + 1)
    ]
    schema = pa.schema([METRIC_DATAPOINT.schema.field(name) for name in names])
    pq.write_table(pa.Table.from_pylist(stored, schema), tmp_path / "points.parquet")
    files = [{"table": METRIC_DATAPOINT.name, "path": str(tmp_path / "points.parquet")}]
    need = TelemetryNeed("", TABLE, None, None, 0, [NOW])

    (found,) = _points(
        iter([pa.RecordBatch.from_pydict({"files": [files]})]), asked=[(DEVICE_ID, need)]
    )

    assert [(row["key"], row["ts"], row["number"]) for row in found.to_pylist()] == [
        ("weather.temp", NOW, 1.5)
    ]
