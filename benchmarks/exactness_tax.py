"""Ratio 2: what exact deduplication adds to the commit of new rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.blind_append import append_blindly
from benchmarks.correctness import assert_platform_is_right
from benchmarks.measuring import Measured, Preparation, Work, interleaved
from benchmarks.workbench import Workbench, drain_all, land, written_segments
from benchmarks.workloads import Fleet
from ilyama_assets.drains.protocol import Intake
from tests.oracle import Event
from tests.platform import Platform

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
        _assert_both_right(exact, exact_intake, blind, blind_intake)
        return interleaved(
            _exactly(exact_intake, _warm_fleet()),
            _blindly(blind_intake, _warm_fleet()),
            rounds=bench.scale.drain_rounds,
        )


def _warm_fleet() -> Fleet:
    """The fleet after what both platforms have already taken; the same for both."""
    fleet = Fleet(2, devices=DEVICES)
    fleet.batches(DEVICES)
    return fleet


def _exactly(intake: Intake, fleet: Fleet) -> Preparation:
    def prepare(_: int) -> Work:
        land(intake, fleet.batches(DEVICES))
        return lambda: drain_all(intake)

    return prepare


def _blindly(intake: Intake, fleet: Fleet) -> Preparation:
    def prepare(_: int) -> Work:
        segments = _segments(intake, fleet.batches(DEVICES))
        return lambda: append_blindly(intake, segments)

    return prepare


def _segments(intake: Intake, events: Sequence[Event]) -> list[Path]:
    found = written_segments(intake, events)
    return [intake.landing.path(segment.segment_id, segment.day) for segment in found]


def _assert_both_right(
    exact: Platform, exact_intake: Intake, blind: Platform, blind_intake: Intake
) -> None:
    fleet = Fleet(2, devices=DEVICES)
    events = fleet.batches(DEVICES)
    land(exact_intake, events)
    drain_all(exact_intake)
    append_blindly(blind_intake, _segments(blind_intake, events))
    devices = {fleet.device_id(number) for number in range(SAMPLED)}
    for platform in (exact, blind):
        assert_platform_is_right(platform, events, devices=devices)
