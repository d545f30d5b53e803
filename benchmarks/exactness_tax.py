"""Ratio 2: what exact deduplication adds to the commit of new rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.blind_append import append_blindly
from benchmarks.correctness import assert_platforms_are_right
from benchmarks.measuring import Measured, Preparation, Work, interleaved
from benchmarks.workbench import Workbench, drain_all, land, written_segments
from benchmarks.workloads import Fleet, each_round
from ilyama_assets.drains.protocol import Intake
from tests.oracle import Event

DEVICES = 16
SAMPLED = 2


def measure(bench: Workbench) -> Measured:
    """Drain the same rows exactly on one platform and blindly on another, by turns."""
    with (
        bench.platform() as exact,
        bench.platform() as blind,
        exact.intake() as exact_intake,
        blind.intake() as blind_intake,
    ):
        fleet = Fleet(2, devices=DEVICES)
        first = fleet.batches(DEVICES)
        land(exact_intake, first)
        drain_all(exact_intake)
        append_blindly(blind_intake, _segments(blind_intake, first))
        devices = {fleet.device_id(number) for number in range(SAMPLED)}
        assert_platforms_are_right((exact, blind), first, devices=devices)
        messages = each_round(fleet, DEVICES)
        return interleaved(
            _exactly(exact_intake, messages),
            _blindly(blind_intake, messages),
            rounds=bench.scale.drain_rounds,
        )


def _exactly(intake: Intake, messages: Callable[[int], list[Event]]) -> Preparation:
    def prepare(number: int) -> Work:
        land(intake, messages(number))
        return lambda: drain_all(intake)

    return prepare


def _blindly(intake: Intake, messages: Callable[[int], list[Event]]) -> Preparation:
    def prepare(number: int) -> Work:
        segments = _segments(intake, messages(number))
        return lambda: append_blindly(intake, segments)

    return prepare


def _segments(intake: Intake, events: Sequence[Event]) -> list[Path]:
    found = written_segments(intake, events)
    return [intake.landing.path(segment.segment_id, segment.day) for segment in found]
