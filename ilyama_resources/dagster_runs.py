"""Runs that Dagster takes to be at work although their process has died."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from dagster import DagsterInstance, DagsterRunStatus, RunsFilter

from ilyama_resources.postgres import Gateway
from ilyama_resources.postgres.resource import run_lock

AT_WORK = [DagsterRunStatus.QUEUED, DagsterRunStatus.STARTING, DagsterRunStatus.STARTED]
STARTS_WITHIN = timedelta(seconds=90)
"""A run that was just requested needs some time until its process holds its lock."""


def dead_runs(
    instance: DagsterInstance, gateway: Gateway, *, requested_before: datetime
) -> set[str]:
    """Runs at work, requested before a moment, whose lock nobody holds.

    The lock lies in Postgres and dies with the run's process. Between its last step and its end a
    run does not hold it either: only one found twice, some seconds apart, is dead for sure.
    """
    at_work = instance.get_run_records(RunsFilter(statuses=AT_WORK))
    return {
        record.dagster_run.run_id
        for record in at_work
        if record.create_timestamp.replace(tzinfo=UTC) < requested_before
        and gateway.is_free(run_lock(record.dagster_run.run_id))
    }


def report_dead(instance: DagsterInstance, run_id: str) -> None:
    """Let Dagster know that a run has died."""
    run = instance.get_run_by_id(run_id)
    if run is not None and run.status in AT_WORK:
        told = "The process of this run died without a word. Its work goes on in the next run."
        instance.report_run_failed(run, message=told)
