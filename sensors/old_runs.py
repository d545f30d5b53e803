"""Waits for finished runs to grow old, and removes them with their events."""

from datetime import UTC, datetime, timedelta

from dagster import (
    DagsterInstance,
    DagsterRunStatus,
    DefaultSensorStatus,
    RunsFilter,
    SensorEvaluationContext,
    SkipReason,
    sensor,
)

from ilyama_resources.settings import load_settings

FINISHED = [DagsterRunStatus.SUCCESS, DagsterRunStatus.FAILURE, DagsterRunStatus.CANCELED]
AT_ONCE = 50
"""A tick must not take long; the next goes on."""


def runs_finished_before(instance: DagsterInstance, moment: datetime, *, limit: int) -> list[str]:
    """The oldest runs that were over before a moment."""
    old = RunsFilter(statuses=FINISHED, updated_before=moment)
    records = instance.get_run_records(
        old, limit=limit, order_by="update_timestamp", ascending=True
    )
    return [record.dagster_run.run_id for record in records]


def remove_run(instance: DagsterInstance, run_id: str) -> None:
    """Remove a run with its events and with what its process printed, which Dagster keeps."""
    instance.compute_log_manager.delete_logs(prefix=[run_id])
    instance.delete_run(run_id)


@sensor(
    minimum_interval_seconds=600,
    default_status=DefaultSensorStatus.RUNNING,
    description="Removes finished runs, with their events, when they are old.",
)
def old_runs(context: SensorEvaluationContext) -> SkipReason:
    """Remove finished runs that are older than `ILYAMA_RUN_KEEP_DAYS`."""
    keep = timedelta(days=load_settings().run_keep_days)
    gone = runs_finished_before(context.instance, datetime.now(UTC) - keep, limit=AT_ONCE)
    for run_id in gone:
        remove_run(context.instance, run_id)
    if not gone:
        return SkipReason(f"no finished run is older than {keep.days} days")
    return SkipReason(f"removed {len(gone)} runs that are older than {keep.days} days")
