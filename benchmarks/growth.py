"""How costs grow: with the rows of history, and with the devices in one drain."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import NamedTuple

from benchmarks.correctness import assert_platform_is_right
from benchmarks.flat_dedup import assert_next_batch_is_right, one_new_batch, repeated_batch
from benchmarks.history import History, shared_history
from benchmarks.measuring import timed
from benchmarks.workbench import MILLION, Workbench, drain_all, land
from benchmarks.workloads import ROWS, Fleet

HISTORIES = (MILLION // 5, 2 * MILLION, 8 * MILLION, 32 * MILLION)
FLEETS = (10, 1_000, 20_000)
BATCHES = 50
ROUNDS = 5
_DEVICE_ROWS = BATCHES * ROWS


class HistoryPoint(NamedTuple):
    """What drains cost after so many rows."""

    rows: int
    one_batch_s: float
    repeated_batch_s: float
    many_batches_s: float

    @property
    def rows_per_s(self) -> float:
        """How fast many batches are drained."""
        return BATCHES * ROWS / self.many_batches_s


class FleetPoint(NamedTuple):
    """What a drain costs with so many devices in it, and always as many rows."""

    devices: int
    rows: int
    first_drain_s: float
    later_drain_s: float

    @property
    def rows_per_s(self) -> float:
        """How fast a drain of known devices is."""
        return self.rows / self.later_drain_s


@dataclass
class Growth:
    """Both curves, point by point."""

    histories: list[HistoryPoint] = field(default_factory=list)
    fleets: list[FleetPoint] = field(default_factory=list)

    @property
    def points(self) -> dict[str, list[dict[str, float]]]:
        """Both curves as they are stored."""
        return {
            "histories": [point._asdict() for point in self.histories],
            "fleets": [point._asdict() for point in self.fleets],
        }


def after(bench: Workbench, rows: int) -> HistoryPoint:
    """What drains cost after so many rows."""
    history = shared_history(bench, rows)
    assert_next_batch_is_right(history)
    one, again = one_new_batch(history), repeated_batch(history)
    return HistoryPoint(
        rows,
        one_batch_s=statistics.median(timed(one(n)) for n in range(ROUNDS)),
        repeated_batch_s=statistics.median(timed(again(n)) for n in range(ROUNDS)),
        many_batches_s=statistics.median(_many(history) for _ in range(ROUNDS)),
    )


def _many(history: History) -> float:
    land(history.intake, history.fleet.batches(BATCHES))
    return timed(lambda: drain_all(history.intake))


def with_devices(bench: Workbench, devices: int) -> FleetPoint:
    """What a drain costs with so many devices in it."""
    batches = max(BATCHES, devices)
    rows = _DEVICE_ROWS // batches
    fleet = Fleet(11, devices=devices)
    with bench.platform() as platform, platform.intake() as intake:
        events = fleet.batches(batches, rows=rows)
        land(intake, events)
        first = timed(lambda: drain_all(intake))
        assert_platform_is_right(platform, events, devices={fleet.device_id(0)})
        later = []
        for _ in range(ROUNDS):
            land(intake, fleet.batches(batches, rows=rows))
            later.append(timed(lambda: drain_all(intake)))
    return FleetPoint(devices, batches * rows, first, statistics.median(later))
