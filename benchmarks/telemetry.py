"""Ratio 13: rows of telemetry per second, from JSON to current values, against rows of tables."""

from __future__ import annotations

from benchmarks.correctness import assert_platform_is_right, device_of
from benchmarks.measuring import Figure, Measured, Preparation, Work, interleaved
from benchmarks.workbench import Workbench, drain_all, land
from benchmarks.workloads import ROWS, Fleet, SampledFleet
from ilyama_assets.drains.protocol import Intake

DEVICES = 16
COMPARED = 2


def measure(bench: Workbench) -> Measured:
    """Drain as many rows of each by turns; the ratio is that of their rates."""
    with (
        bench.platform() as rows,
        bench.platform() as samples,
        rows.intake() as rows_intake,
        samples.intake() as samples_intake,
    ):
        table_fleet, sampled_fleet = Fleet(13, devices=DEVICES), SampledFleet(13, devices=DEVICES)
        first = sampled_fleet.batches(DEVICES)
        land(samples_intake, first)
        drain_all(samples_intake)
        chosen = {device_of(event) for event in first[:COMPARED]}
        assert_platform_is_right(samples, first, devices=chosen)
        measured = interleaved(
            _drained(rows_intake, table_fleet),
            _drained(samples_intake, sampled_fleet),
            rounds=bench.scale.drain_rounds,
        )
    return measured.with_figures(
        Figure("rows of telemetry in a drain", float(DEVICES * ROWS), "rows")
    )


def _drained(intake: Intake, fleet: Fleet | SampledFleet) -> Preparation:
    def prepare(_: int) -> Work:
        land(intake, fleet.batches(DEVICES))
        return lambda: drain_all(intake)

    return prepare
