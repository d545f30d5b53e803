"""Ratio 17: a drain beside a review with a large backlog, against the same drain without any.

The devices of both platforms send the same rows of one table. On one platform they have sent rows
of another table too, whose schema waits for a person: all of those are staged.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.correctness import assert_platform_is_right, assert_served_alike
from benchmarks.measuring import Figure, Measured, Preparation, Work, interleaved
from benchmarks.peer_comparison import assert_same_tables
from benchmarks.workbench import Workbench, drain_all, land
from benchmarks.workloads import Fleet, each_round
from ilyama_assets.drains.protocol import Intake
from ilyama_protocol.governance.policies import FirstSchema, PolicyChoice, PolicyScope
from tests.governed import reviewing, reviews
from tests.oracle import Event
from tests.platform import Platform

DEVICES = 16
SAMPLED = 1
REVIEWED = "pump"
REVIEWED_BATCHES = 64
REVIEWED_ROWS = 3200
STAGED = REVIEWED_BATCHES * REVIEWED_ROWS
TABLES = ("row_changes", "metric_datapoint", "state_datapoint")


def measure(bench: Workbench) -> Measured:
    """Drain the same rows on both platforms, by turns."""
    with (
        bench.platform() as reviewed,
        bench.platform() as plain,
        reviewed.intake() as reviewed_intake,
        plain.intake() as plain_intake,
    ):
        fleet = Fleet(17, devices=DEVICES)
        events = _drained(fleet.batches(DEVICES), reviewed_intake, plain_intake)
        _put_under_review(reviewed, reviewed_intake, fleet)
        events += _drained(fleet.batches(DEVICES), reviewed_intake, plain_intake)
        _prove(reviewed, plain, events, {fleet.device_id(number) for number in range(SAMPLED)})
        messages = each_round(fleet, DEVICES)
        measured = interleaved(
            _drains(reviewed_intake, messages),
            _drains(plain_intake, messages),
            rounds=bench.scale.drain_rounds,
        )
        assert_same_tables(reviewed.settings.warehouse, plain.settings.warehouse, TABLES)
    return measured.with_figures(Figure("staged rows under review", float(STAGED), "rows"))


def _drained(events: list[Event], *intakes: Intake) -> list[Event]:
    for intake in intakes:
        land(intake, events)
        drain_all(intake)
    return events


def _put_under_review(platform: Platform, intake: Intake, fleet: Fleet) -> None:
    """Have every device send rows of a table whose schema nobody has approved."""
    reviewed_first = PolicyChoice(first_schema=FirstSchema.REVIEW)
    desk = reviewing(platform.gateway, intake.settings.policy)
    desk.choose(PolicyScope(source_table=REVIEWED), reviewed_first, actor="bench")
    other = Fleet(18, devices=DEVICES, table=REVIEWED, sent=fleet.sent)
    _drained(other.batches(REVIEWED_BATCHES, rows=REVIEWED_ROWS), intake)
    fleet.sent = other.sent


def _prove(reviewed: Platform, plain: Platform, events: list[Event], sampled: set[str]) -> None:
    """Compare one platform with the oracle, and the other with it; a review is open as it must."""
    assert_platform_is_right(plain, events, devices=sampled)
    assert_same_tables(reviewed.settings.warehouse, plain.settings.warehouse, TABLES)
    assert_served_alike(reviewed, plain, sampled)
    assert len(reviews(reviewed.gateway)) == DEVICES
    assert len(reviewed.rows("staged_rows")) == STAGED


def _drains(intake: Intake, messages: Callable[[int], list[Event]]) -> Preparation:
    def prepare(number: int) -> Work:
        land(intake, messages(number))
        return lambda: drain_all(intake)

    return prepare
