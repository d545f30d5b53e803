"""Ratio 12: rows per second on two cores, against one.

What scales is Spark's part of a drain; its end is one transaction of Postgres. A device has a
hundred rows that change, not the thousand of the peer's, which is the most that is served there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

from benchmarks.correctness import assert_platforms_are_right
from benchmarks.measuring import Figure, Measured, Preparation, Work, interleaved
from benchmarks.workbench import Workbench, drain_all, land
from benchmarks.workloads import ROWS, Fleet, each_round
from ilyama_assets.drains.protocol import Intake
from ilyama_resources.embedded.spark_server import EmbeddedSpark
from tests.oracle import Event
from tests.platform import Platform

BATCHES = 128
"""As many as one drain takes."""
PRIMARY_KEYS = 100
FEW_ROWS = 512
SAMPLED = 1


def measure(bench: Workbench) -> Measured:
    """Drain the same rows with both; of two rates, the slower one's seconds stand above."""
    fleet = Fleet(12, primary_keys=PRIMARY_KEYS)
    with _sides(bench) as (one, two):
        _prove((one, two), fleet)
        messages = each_round(fleet, BATCHES)
        measured = interleaved(
            _drains(one.intake, messages),
            _drains(two.intake, messages),
            rounds=bench.scale.long_drain_rounds,
        )
    rows = BATCHES * ROWS
    return measured.with_figures(
        Figure("on one core", rows / measured.numerator_s, "rows/s"),
        Figure("on two cores", rows / measured.denominator_s, "rows/s"),
    )


class _Side(NamedTuple):
    platform: Platform
    intake: Intake


@contextmanager
def _sides(bench: Workbench) -> Iterator[tuple[_Side, _Side]]:
    """A platform on one core, with a Spark of its own, and one on two."""
    with (
        EmbeddedSpark(bench.one_core_settings).in_use() as one_core,
        bench.platform(spark_remote=one_core) as one,
        bench.platform() as two,
        one.intake(spark_cores=1) as one_intake,
        two.intake(spark_cores=2) as two_intake,
    ):
        yield _Side(one, one_intake), _Side(two, two_intake)


def _prove(sides: Sequence[_Side], fleet: Fleet) -> None:
    """Have both drain once, and compare what they stored with the oracle."""
    events = fleet.batches(BATCHES, rows=FEW_ROWS)
    for side in sides:
        land(side.intake, events)
    with ThreadPoolExecutor(len(sides)) as pool:
        list(pool.map(lambda side: drain_all(side.intake), sides))
    sampled = {fleet.device_id(number) for number in range(SAMPLED)}
    assert_platforms_are_right([side.platform for side in sides], events, devices=sampled)


def _drains(intake: Intake, messages: Callable[[int], list[Event]]) -> Preparation:
    def prepare(number: int) -> Work:
        land(intake, messages(number))
        return lambda: drain_all(intake)

    return prepare
