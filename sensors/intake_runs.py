"""What Dagster knows of intake runs, and which of them have died without a word."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from dagster import DagsterInstance, DagsterRunStatus, RunRecord, RunsFilter

from ilyama_assets.jobs import intake_job
from ilyama_resources.postgres import Gateway
from ilyama_resources.postgres.resource import run_lock
from sensors.run_planning import IntakeRuns

AT_WORK = [DagsterRunStatus.QUEUED, DagsterRunStatus.STARTING, DagsterRunStatus.STARTED]
STARTS_WITHIN = timedelta(seconds=90)
_LOOKED_AT = 12


def intake_runs(instance: DagsterInstance) -> IntakeRuns:
    """The runs at work, and how many failed since the last that did not."""
    records = instance.get_run_records(RunsFilter(job_name=intake_job.name), limit=_LOOKED_AT)
    at_work = sum(record.dagster_run.status in AT_WORK for record in records)
    failed: list[RunRecord] = []
    for record in records:
        if record.dagster_run.status is not DagsterRunStatus.FAILURE:
            break
        failed.append(record)
    return IntakeRuns(at_work, len(failed), _ended_at(failed[0]) if failed else None)


def dead_runs(instance: DagsterInstance, gateway: Gateway, *, now: datetime) -> set[str]:
    """Runs of any job that Dagster takes to be at work, but that no living process works on.

    A run holds a lock in Postgres that dies with its process. Between its last step and its end it
    does not: only a run that is found dead twice, in two ticks, is dead.
    """
    at_work = instance.get_run_records(RunsFilter(statuses=AT_WORK))
    return {
        record.dagster_run.run_id
        for record in at_work
        if now - record.create_timestamp.replace(tzinfo=UTC) > STARTS_WITHIN
        and gateway.is_free(run_lock(record.dagster_run.run_id))
    }


def report_dead(instance: DagsterInstance, run_id: str) -> None:
    """Let Dagster know that a run has died."""
    run = instance.get_run_by_id(run_id)
    if run is not None and run.status in AT_WORK:
        told = "The process of this run died without a word. Its drain goes on in the next run."
        instance.report_run_failed(run, message=told)


def _ended_at(record: RunRecord) -> datetime:
    if record.end_time is not None:
        return datetime.fromtimestamp(record.end_time, UTC)
    return record.update_timestamp.replace(tzinfo=UTC)
