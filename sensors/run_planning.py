"""Whether an intake run is due: a pure decision from what was seen."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import NamedTuple

from ilyama_resources.postgres.drains import Drain, DrainState
from ilyama_resources.postgres.segments import PendingDay

FIRST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(minutes=5)


class IntakeRuns(NamedTuple):
    """What is known of the runs of the intake job."""

    at_work: int = 0
    failed_in_a_row: int = 0
    last_failed_at: datetime | None = None


class RunPlan(NamedTuple):
    """A day to drain, or the reason to request no run."""

    day: date | None
    reason: str


def plan_run(
    pending: Sequence[PendingDay], unfinished: Drain | None, runs: IntakeRuns, *, now: datetime
) -> RunPlan:
    """Drain the unfinished day first, then the oldest that waits; one run at a time."""
    if runs.at_work:
        return RunPlan(None, "an intake run is at work and takes up what lands")
    if unfinished is not None and unfinished.state is DrainState.HELD:
        return RunPlan(None, f"drain {unfinished.drain_id} is held: {unfinished.note}")
    if unfinished is None and not pending:
        return RunPlan(None, "no segment is waiting")
    if (until := paused_until(runs)) is not None and now < until:
        told = f"the last {runs.failed_in_a_row} intake runs failed"
        return RunPlan(None, f"{told}; the next is requested after {until:%H:%M:%S} UTC")
    if unfinished is not None:
        return RunPlan(unfinished.day, f"drain {unfinished.drain_id} is unfinished")
    oldest = pending[0]
    return RunPlan(oldest.day, f"{oldest.segments} segments of {oldest.day} are waiting")


def paused_until(runs: IntakeRuns) -> datetime | None:
    """When runs that keep failing may be tried again: twice as late each time."""
    if runs.last_failed_at is None or runs.failed_in_a_row == 0:
        return None
    doublings = min(runs.failed_in_a_row - 1, 10)
    pause: timedelta = min(FIRST_PAUSE * 2**doublings, LONGEST_PAUSE)
    return runs.last_failed_at + pause
