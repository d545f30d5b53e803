"""Ratio 1: what one new batch costs after millions of rows, against after a few."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.correctness import assert_news_are_right, device_of
from benchmarks.history import lengthen
from benchmarks.measuring import Figure, Measured, Preparation, Work, interleaved
from benchmarks.workbench import Workbench, drain_all, land
from benchmarks.workloads import Fleet
from ilyama_assets.drains.protocol import Intake
from tests.oracle import Event
from tests.platform import Platform


def measure(bench: Workbench) -> Measured:
    """Drain one new batch at each of two histories, by turns."""
    scale = bench.scale
    with (
        _with_history(bench, scale.long_history_rows) as (long, far),
        _with_history(bench, scale.short_history_rows) as (short, near),
    ):
        measured = interleaved(
            one_new_batch(long, far), one_new_batch(short, near), rounds=scale.drain_rounds
        )
        again = interleaved(repeated_batch(long, far), repeated_batch(short, near), rounds=3)
        return measured.with_figures(
            Figure("the same batch again, after the long history", again.numerator_s, "s"),
            Figure("the same batch again, after the short history", again.denominator_s, "s"),
        )


def one_new_batch(intake: Intake, fleet: Fleet) -> Preparation:
    """The drain of the next batch of a fleet."""

    def prepare(_: int) -> Work:
        land(intake, fleet.batches(1))
        return lambda: drain_all(intake)

    return prepare


@contextmanager
def _with_history(bench: Workbench, rows: int) -> Iterator[tuple[Intake, Fleet]]:
    fleet = Fleet(1)
    with bench.platform() as platform, platform.intake() as intake:
        before = lengthen(intake, fleet, rows=rows)
        assert_next_batch_is_right(platform, intake, fleet, before=before)
        yield intake, fleet


def assert_next_batch_is_right(
    platform: Platform, intake: Intake, fleet: Fleet, *, before: list[Event]
) -> None:
    """Compare a new batch, and an old one that comes again, with the oracle."""
    (new,) = fleet.batches(1)
    again = next(event for event in before if device_of(event) == device_of(new))
    repeated = Event(again.topic, again.payload, new.received_at_us + 1)
    land(intake, [new, repeated])
    drain_all(intake)
    assert_news_are_right(platform, [*before, new, repeated], since=new)


def repeated_batch(intake: Intake, fleet: Fleet) -> Preparation:
    """The drain of a batch that came before, byte for byte: it must look into its history."""

    def prepare(_: int) -> Work:
        (event,) = fleet.batches(1)
        land(intake, [event])
        drain_all(intake)
        land(intake, [Event(event.topic, event.payload, event.received_at_us + 1)])
        return lambda: drain_all(intake)

    return prepare
