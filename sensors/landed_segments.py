"""Waits for segments that landed, and asks for a run that drains their day."""

from collections.abc import Sequence
from datetime import date
from typing import NamedTuple

from dagster import (
    DagsterRunStatus,
    DefaultSensorStatus,
    RunRequest,
    RunsFilter,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)

from ilyama_assets.jobs import DRAIN_ONLY, intake_job
from ilyama_assets.partitions import ensure_days
from ilyama_resources.lake import DeltaLake
from ilyama_resources.postgres.drains import Drain, DrainState
from ilyama_resources.postgres.resource import Records
from ilyama_resources.postgres.segments import PendingDay

_AT_WORK = [DagsterRunStatus.QUEUED, DagsterRunStatus.STARTING, DagsterRunStatus.STARTED]


class TickPlan(NamedTuple):
    """What a tick decided: a day to drain, or the reason to do nothing."""

    day: date | None
    reason: str


def plan_tick(
    pending: Sequence[PendingDay], unfinished: Drain | None, *, runs_at_work: int
) -> TickPlan:
    """Drain the unfinished day first, then the oldest that waits; one run at a time."""
    if runs_at_work:
        return TickPlan(None, "an intake run is at work and will take what landed")
    if unfinished is not None and unfinished.state is DrainState.HELD:
        return TickPlan(None, f"drain {unfinished.drain_id} is held: {unfinished.note}")
    if unfinished is not None:
        return TickPlan(unfinished.day, f"drain {unfinished.drain_id} is unfinished")
    if not pending:
        return TickPlan(None, "no segment is waiting")
    oldest = pending[0]
    return TickPlan(oldest.day, f"{oldest.segments} segments of {oldest.day} are waiting")


@sensor(job=intake_job, minimum_interval_seconds=5, default_status=DefaultSensorStatus.RUNNING)
def landed_segments(
    context: SensorEvaluationContext, records: Records, lake: DeltaLake
) -> SensorResult | SkipReason:
    """Look at what landed; request a run when something waits and none is at work."""
    lake.landing.register_found(records.gateway)
    with records.gateway.transaction() as tx:
        pending, unfinished = tx.segments.pending(), tx.drains.unfinished()
    at_work = RunsFilter(job_name=intake_job.name, statuses=_AT_WORK)
    plan = plan_tick(pending, unfinished, runs_at_work=context.instance.get_runs_count(at_work))
    if plan.day is None:
        return SkipReason(plan.reason)
    ensure_days(context.instance, [plan.day])
    request = RunRequest(partition_key=plan.day.isoformat(), run_config=DRAIN_ONLY)
    return SensorResult(run_requests=[request], cursor=plan.reason)
