"""Ratio 12: rows per second on two cores, against one.

What scales is Spark's part of a drain; its end is one transaction of Postgres. A device has a
hundred rows that change, not the thousand of the peer's, which is the most that is served there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.correctness import assert_platform_is_right
from benchmarks.measuring import Figure, Measured, Preparation, Work, interleaved
from benchmarks.workbench import Workbench, drain_all, land
from benchmarks.workloads import ROWS, Fleet
from ilyama_assets.drains.protocol import Intake
from ilyama_resources.embedded.spark_server import EmbeddedSpark

BATCHES = 128
"""As many as one drain takes."""
PRIMARY_KEYS = 100
FEW_ROWS = 512
SAMPLED = 1


def measure(bench: Workbench) -> Measured:
    """Drain the same rows with both; of two rates, the slower one's seconds stand above."""
    with (
        EmbeddedSpark(bench.one_core_settings).in_use() as one_core,
        _intake(bench, bench.spark_remote, 2) as two,
        _intake(bench, one_core, 1) as one,
    ):
        measured = interleaved(_drains(one), _drains(two), rounds=bench.scale.long_drain_rounds)
    rows = BATCHES * ROWS
    return measured.with_figures(
        Figure("on one core", rows / measured.numerator_s, "rows/s"),
        Figure("on two cores", rows / measured.denominator_s, "rows/s"),
    )


@contextmanager
def _intake(bench: Workbench, remote: str, cores: int) -> Iterator[tuple[Intake, Fleet]]:
    """A platform that has drained once, and whose answer was right."""
    fleet = Fleet(12, primary_keys=PRIMARY_KEYS)
    with (
        bench.platform(spark_remote=remote) as platform,
        platform.intake(spark_cores=cores) as intake,
    ):
        events = fleet.batches(BATCHES, rows=FEW_ROWS)
        land(intake, events)
        drain_all(intake)
        sampled = {fleet.device_id(number) for number in range(SAMPLED)}
        assert_platform_is_right(platform, events, devices=sampled)
        yield intake, fleet


def _drains(side: tuple[Intake, Fleet]) -> Preparation:
    intake, fleet = side

    def prepare(_: int) -> Work:
        land(intake, fleet.batches(BATCHES))
        return lambda: drain_all(intake)

    return prepare
