"""Ratio 8: what a small batch costs when 64 of them wait, against one alone."""

from __future__ import annotations

from benchmarks.correctness import assert_platform_is_right
from benchmarks.measuring import Measured, Preparation, Work, interleaved
from benchmarks.workbench import Workbench, drain_all, land
from benchmarks.workloads import Fleet
from ilyama_assets.drains.protocol import Intake
from tests.oracle import Event

QUEUED = 64
ROWS = 64


def measure(bench: Workbench) -> Measured:
    """Drain 64 batches that landed together, and one alone, by turns."""
    fleet = Fleet(8, devices=QUEUED)
    with bench.platform() as platform, platform.intake() as intake:
        sent = [*_sent(intake, fleet, QUEUED), *_sent(intake, fleet, 1)]
        assert_platform_is_right(platform, sent)
        measured = interleaved(
            _drains(intake, fleet, QUEUED),
            _drains(intake, fleet, 1),
            rounds=bench.scale.short_drain_rounds,
        )
    return measured.per(numerator=QUEUED)


def _sent(intake: Intake, fleet: Fleet, batches: int) -> list[Event]:
    events = fleet.batches(batches, rows=ROWS)
    land(intake, events)
    drain_all(intake)
    return events


def _drains(intake: Intake, fleet: Fleet, batches: int) -> Preparation:
    def prepare(_: int) -> Work:
        land(intake, fleet.batches(batches, rows=ROWS))
        return lambda: drain_all(intake)

    return prepare
