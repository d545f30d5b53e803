"""Whether an intake run is due: a pure decision from what was seen."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import NamedTuple

from ilyama_resources.postgres.drains import Drain, DrainState
from ilyama_resources.postgres.segments import PendingDay

FIRST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(minutes=5)
HANDOVER = timedelta(seconds=15)
"""How long before a run ends its successor is requested: longer than a run takes to start."""


class IntakeRuns(NamedTuple):
    """What is known of the runs of the intake job."""

    at_work: int = 0
    failed_in_a_row: int = 0
    last_failed_at: datetime | None = None
    started_at: datetime | None = None
    """When the run at work started, if it is only one."""


class RunPlan(NamedTuple):
    """A day to drain, or the reason to request no run."""

    day: date | None
    reason: str


def plan_run(
    pending: Sequence[PendingDay],
    unfinished: Drain | None,
    runs: IntakeRuns,
    *,
    now: datetime,
    run_lasts: timedelta,
    free_lineages: int = 0,
) -> RunPlan:
    """Drain the unfinished day first, then the oldest that waits; one run after the other.

    When nothing waits, staged rows that nothing holds are released on the day that it is.
    """
    if unfinished is not None and unfinished.state is DrainState.HELD:
        return RunPlan(None, f"drain {unfinished.drain_id} is held: {unfinished.note}")
    if runs.at_work and not (pending and _ends_soon(runs, now=now, run_lasts=run_lasts)):
        return RunPlan(None, "an intake run is at work and takes up what lands")
    if unfinished is None and not pending and not free_lineages:
        return RunPlan(None, "no segment is waiting")
    if (until := paused_until(runs)) is not None and now < until:
        told = f"the last {runs.failed_in_a_row} intake runs failed"
        return RunPlan(None, f"{told}; the next is requested after {until:%H:%M:%S} UTC")
    if unfinished is not None and not runs.at_work:
        return RunPlan(unfinished.day, f"drain {unfinished.drain_id} is unfinished")
    if not pending:
        return RunPlan(now.date(), f"staged rows of {free_lineages} lineages are free")
    oldest = pending[0]
    told = f"{oldest.segments} segments of {oldest.day} are waiting"
    return RunPlan(oldest.day, f"{told}, and the run at work ends soon" if runs.at_work else told)


def _ends_soon(runs: IntakeRuns, *, now: datetime, run_lasts: timedelta) -> bool:
    """Whether the successor of the only run at work should get ready and wait for its turn."""
    lead: timedelta = min(HANDOVER, run_lasts / 4)
    return runs.started_at is not None and now >= runs.started_at + run_lasts - lead


def paused_until(runs: IntakeRuns) -> datetime | None:
    """When runs that keep failing may be tried again: twice as late each time."""
    if runs.last_failed_at is None or runs.failed_in_a_row == 0:
        return None
    doublings = min(runs.failed_in_a_row - 1, 10)
    pause: timedelta = min(FIRST_PAUSE * 2**doublings, LONGEST_PAUSE)
    return runs.last_failed_at + pause
