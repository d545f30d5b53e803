"""What Dagster knows of intake runs."""

from __future__ import annotations

from datetime import UTC, datetime

from dagster import DagsterInstance, DagsterRunStatus, RunRecord, RunsFilter

from ilyama_assets.jobs import intake_job
from ilyama_resources.dagster_runs import AT_WORK
from sensors.run_planning import IntakeRuns

_LOOKED_AT = 12


def intake_runs(instance: DagsterInstance) -> IntakeRuns:
    """The runs at work, and how many failed since the last that did not."""
    records = instance.get_run_records(RunsFilter(job_name=intake_job.name), limit=_LOOKED_AT)
    at_work = [record for record in records if record.dagster_run.status in AT_WORK]
    failed: list[RunRecord] = []
    for record in records:
        if record.dagster_run.status is not DagsterRunStatus.FAILURE:
            break
        failed.append(record)
    return IntakeRuns(
        at_work=len(at_work),
        failed_in_a_row=len(failed),
        last_failed_at=_ended_at(failed[0]) if failed else None,
        started_at=_moment(at_work[0].start_time) if len(at_work) == 1 else None,
    )


def _ended_at(record: RunRecord) -> datetime:
    return _moment(record.end_time) or record.update_timestamp.replace(tzinfo=UTC)


def _moment(timestamp: float | None) -> datetime | None:
    return None if timestamp is None else datetime.fromtimestamp(timestamp, UTC)
