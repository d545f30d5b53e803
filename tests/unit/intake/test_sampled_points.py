"""Tables that are mapped to one key have one value of it at a moment, whoever came first."""

from array import array

import numpy as np
import pytest

from ilyama_protocol.fingerprint import schema_hash
from ilyama_protocol.governance.bindings import ColumnAction, Verb
from ilyama_protocol.intake.datapoints import DatapointKind, Points
from ilyama_protocol.intake.sampled_points import PointsMemory
from tests.memory_platform import MemoryPlatform
from tests.oracle import Event
from tests.unit.intake.traffic import NOW, TELEMETRY_TOPIC, columns, sample, telemetry

MOMENTS = np.frombuffer(array("q", [NOW]), np.int64)


def _points(value: float) -> list[Points]:
    return [Points(DatapointKind.METRIC, "weather.temp", [0], [value])]


def test_another_table_under_the_same_key_is_compared_whichever_came_first() -> None:
    memory = PointsMemory({})
    memory.note("sensors", _points(1.0), MOMENTS)

    assert [memory.shares(table, _points(2.0)) for table in ("sensors", "weather")] == [False, True]
    kept, (conflict,) = memory.new("weather", _points(2.0), MOMENTS)
    assert (kept, conflict.first, conflict.other) == ([], "1.0", "2.0")

    memory.note("weather", _points(3.0), MOMENTS + 1)
    assert memory.shares("sensors", _points(4.0))


SCHEMA = columns(temp="REAL")
TABLES = ("sensors", "weather", "inside")
KEY = "sensors.temp"


def _platform() -> MemoryPlatform:
    """What `weather` and `inside` measure is approved as what `sensors` measures."""
    platform = MemoryPlatform()
    action = {"temp": ColumnAction(Verb.MAP, KEY)}
    platform.approved = {name: {schema_hash(name, SCHEMA): action} for name in TABLES[1:]}
    return platform


def _drain(platform: MemoryPlatform, table: str, number: int, temp: float, second: int = 0) -> None:
    body = telemetry(sample(second, temp=temp), seq=number, table=table, schema=SCHEMA)
    platform.drain([Event(TELEMETRY_TOPIC, body, NOW + number * 10**6)])


@pytest.mark.parametrize(
    ("first", "second"),
    [("sensors", "weather"), ("weather", "sensors"), ("weather", "inside")],
)
def test_what_another_table_stored_in_an_earlier_drain_stays(first: str, second: str) -> None:
    platform = _platform()
    _drain(platform, first, 1, 1.0)
    _drain(platform, second, 2, 2.0)
    _drain(platform, second, 3, 3.0, second=1)

    stored = [(row["key"], row["value"]) for row in platform.tables["metric_datapoint"]]
    (conflict,) = platform.tables["key_conflicts"]

    assert stored == [(KEY, 1.0), (KEY, 3.0)]
    assert (conflict["kind"], conflict["first"], conflict["other"]) == ("datapoint", "1.0", "2.0")


def test_tables_with_keys_of_their_own_are_not_looked_up_for_each_other() -> None:
    platform = MemoryPlatform()
    _drain(platform, "sensors", 1, 1.0)
    _drain(platform, "weather", 2, 2.0)
    assert len(platform.tables["metric_datapoint"]) == 2
    assert platform.tables["key_conflicts"] == []
