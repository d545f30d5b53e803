"""Tables that are mapped to one key are told apart within a drain."""

from array import array

import numpy as np

from ilyama_protocol.intake.datapoints import DatapointKind, Points
from ilyama_protocol.intake.sampled_points import PointsMemory
from tests.unit.intake.traffic import NOW

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
