"""Ratio 1: what one new batch costs after millions of rows, against after a few."""

from __future__ import annotations

from benchmarks.correctness import assert_news_are_right, device_of
from benchmarks.history import History, shared_history
from benchmarks.measuring import Figure, Measured, Preparation, Work, interleaved
from benchmarks.workbench import Workbench, drain_all, land
from benchmarks.workloads import Fleet
from tests.oracle import Event


def measure(bench: Workbench) -> Measured:
    """Drain one new batch at each of two histories, by turns."""
    far = shared_history(bench, bench.scale.long_history_rows)
    with bench.platform() as platform, platform.intake() as intake:
        near = History(platform, intake, Fleet(2))
        near.grow_to(bench.scale.short_history_rows)
        for history in (far, near):
            assert_next_batch_is_right(history)
        rounds = bench.scale.short_drain_rounds
        measured = interleaved(one_new_batch(far), one_new_batch(near), rounds=rounds)
        if bench.scale.thorough:
            again = interleaved(repeated_batch(far), repeated_batch(near), rounds=3)
            measured = measured.with_figures(
                Figure("the same batch again, after the long history", again.numerator_s, "s"),
                Figure("the same batch again, after the short history", again.denominator_s, "s"),
            )
    return measured


def one_new_batch(history: History) -> Preparation:
    """The drain of the next batch of a fleet."""

    def prepare(_: int) -> Work:
        land(history.intake, history.fleet.batches(1))
        return lambda: drain_all(history.intake)

    return prepare


def assert_next_batch_is_right(history: History) -> None:
    """Compare a new batch, and an old one that comes again, with the oracle."""
    (new,) = history.fleet.batches(1)
    again = next(e for e in history.messages if device_of(e) == device_of(new))
    repeated = Event(again.topic, again.payload, new.received_at_us + 1)
    land(history.intake, [new, repeated])
    drain_all(history.intake)
    assert_news_are_right(history.platform, [again, new, repeated], since=new)


def repeated_batch(history: History) -> Preparation:
    """The drain of a batch that came before, byte for byte: it must look into its history."""

    def prepare(_: int) -> Work:
        (event,) = history.fleet.batches(1)
        land(history.intake, [event])
        drain_all(history.intake)
        land(history.intake, [Event(event.topic, event.payload, event.received_at_us + 1)])
        return lambda: drain_all(history.intake)

    return prepare
