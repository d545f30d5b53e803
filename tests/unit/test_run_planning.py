"""When the sensor asks for a run, and of which day."""

from datetime import UTC, date, datetime, timedelta

import pytest

from ilyama_resources.postgres.drains import Drain, DrainState
from ilyama_resources.postgres.segments import PendingDay
from sensors.run_planning import IntakeRuns, RunPlan, plan_run

MONDAY, TUESDAY = date(2026, 4, 27), date(2026, 4, 28)
OPENED = datetime(2026, 4, 28, tzinfo=UTC)
NOW = datetime(2026, 4, 28, 12, tzinfo=UTC)
WAITING = [PendingDay(MONDAY, 3, 30, 300), PendingDay(TUESDAY, 1, 10, 100)]


RUN_LASTS = timedelta(minutes=2)


def _plan(pending: list[PendingDay], unfinished: Drain | None, runs: IntakeRuns) -> RunPlan:
    return plan_run(pending, unfinished, runs, now=NOW, run_lasts=RUN_LASTS)


def _unfinished(day: date, state: DrainState = DrainState.OPEN) -> Drain:
    return Drain(7, day, "live", state, 0, 1, 1, 1, None, OPENED, None, None)


@pytest.mark.parametrize(
    ("pending", "unfinished", "runs_at_work", "day", "reason"),
    [
        ([], None, 0, None, "no segment is waiting"),
        (WAITING, None, 0, MONDAY, "3 segments of 2026-04-27 are waiting"),
        (WAITING[1:], None, 0, TUESDAY, "1 segments of 2026-04-28 are waiting"),
        ([], _unfinished(TUESDAY), 0, TUESDAY, "drain 7 is unfinished"),
        (WAITING, _unfinished(TUESDAY), 0, TUESDAY, "drain 7 is unfinished"),
        (WAITING, _unfinished(TUESDAY, DrainState.SEALED), 0, TUESDAY, "drain 7 is unfinished"),
        (WAITING, None, 1, None, "at work"),
        ([], _unfinished(TUESDAY), 2, None, "at work"),
        ([], None, 1, None, "at work"),
    ],
    ids=[
        "nothing waits",
        "the oldest day first",
        "the only day",
        "an unfinished drain alone",
        "an unfinished drain before older days",
        "a sealed drain too",
        "a run at work takes what waits",
        "a run at work finishes the drain",
        "a run at work and nothing to do",
    ],
)
def test_a_tick_is_planned(
    pending: list[PendingDay],
    unfinished: Drain | None,
    runs_at_work: int,
    day: date | None,
    reason: str,
) -> None:
    plan = _plan(pending, unfinished, IntakeRuns(runs_at_work))

    assert plan.day == day
    assert reason in plan.reason


def test_a_held_drain_waits_for_an_operator_and_not_for_runs() -> None:
    plan = _plan(WAITING, _unfinished(MONDAY, DrainState.HELD), IntakeRuns())

    assert plan.day is None


@pytest.mark.parametrize(
    ("failures", "seconds_ago", "due"),
    [(1, 4, False), (1, 6, True), (2, 9, False), (2, 11, True), (30, 299, False), (30, 301, True)],
)
def test_runs_that_keep_failing_are_requested_ever_more_rarely(
    failures: int, seconds_ago: int, due: bool
) -> None:
    runs = IntakeRuns(0, failures, NOW - timedelta(seconds=seconds_ago))

    plan = _plan(WAITING, None, runs)

    assert (plan.day == MONDAY) == due
    assert due or f"the last {failures} intake runs failed" in plan.reason


@pytest.mark.parametrize(
    ("at_work", "age_s", "pending", "day"),
    [
        (1, 104, WAITING, None),
        (1, 106, WAITING, MONDAY),
        (1, 106, [], None),
        (2, 106, WAITING, None),
    ],
    ids=["still young", "about to end", "nothing waits", "its successor is there"],
)
def test_a_run_that_ends_soon_gets_a_successor(
    at_work: int, age_s: int, pending: list[PendingDay], day: date | None
) -> None:
    started = NOW - timedelta(seconds=age_s)
    runs = IntakeRuns(at_work, started_at=started if at_work == 1 else None)

    plan = _plan(pending, _unfinished(TUESDAY), runs)

    assert plan.day == day
    assert ("the run at work ends soon" in plan.reason) == (day is not None)


def test_a_held_drain_gets_no_successor() -> None:
    runs = IntakeRuns(1, started_at=NOW - RUN_LASTS)

    assert _plan(WAITING, _unfinished(MONDAY, DrainState.HELD), runs).day is None


def test_short_runs_are_not_succeeded_from_their_beginning() -> None:
    runs = IntakeRuns(1, started_at=NOW - timedelta(seconds=10))

    plan = plan_run(WAITING, None, runs, now=NOW, run_lasts=timedelta(seconds=20))

    assert plan.day is None


@pytest.mark.parametrize(
    ("pending", "at_work", "day"),
    [([], 0, NOW.date()), ([], 1, None), (WAITING, 0, MONDAY)],
    ids=["nothing waits", "a run is at work", "segments wait"],
)
def test_staged_rows_that_are_free_are_worth_a_run(
    pending: list[PendingDay], at_work: int, day: date | None
) -> None:
    runs = IntakeRuns(at_work)

    plan = plan_run(pending, None, runs, now=NOW, run_lasts=RUN_LASTS, free_lineages=3)

    assert plan.day == day
    assert ("staged rows of 3 lineages are free" in plan.reason) == (day == NOW.date())
