"""How costs grow: with the rows of history, and with the devices in one drain."""

from __future__ import annotations

import statistics
from typing import NamedTuple

from benchmarks.correctness import assert_platform_is_right
from benchmarks.flat_dedup import assert_next_batch_is_right, one_new_batch, repeated_batch
from benchmarks.history import lengthen
from benchmarks.measuring import timed
from benchmarks.workbench import MILLION, Workbench, drain_all, land
from benchmarks.workloads import ROWS, Fleet
from ilyama_assets.drains.protocol import Intake

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


class Growth(NamedTuple):
    """Both curves."""

    histories: list[HistoryPoint]
    fleets: list[FleetPoint]


def measure(bench: Workbench) -> Growth:
    """Measure every point, one after another."""
    histories = [_after(bench, rows) for rows in HISTORIES]
    return Growth(histories, [_with_devices(bench, devices) for devices in FLEETS])


def _after(bench: Workbench, rows: int) -> HistoryPoint:
    fleet = Fleet(11)
    with bench.platform() as platform, platform.intake() as intake:
        before = lengthen(intake, fleet, rows=rows)
        assert_next_batch_is_right(platform, intake, fleet, before=before)
        one, again = one_new_batch(intake, fleet), repeated_batch(intake, fleet)
        return HistoryPoint(
            rows,
            one_batch_s=statistics.median(timed(one(n)) for n in range(ROUNDS)),
            repeated_batch_s=statistics.median(timed(again(n)) for n in range(ROUNDS)),
            many_batches_s=statistics.median(_many(intake, fleet) for _ in range(ROUNDS)),
        )


def _many(intake: Intake, fleet: Fleet) -> float:
    land(intake, fleet.batches(BATCHES))
    return timed(lambda: drain_all(intake))


def _with_devices(bench: Workbench, devices: int) -> FleetPoint:
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
