"""Runs that are at work, are to end, or have died although Dagster takes them to be at work."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from dagster import DagsterInstance, DagsterRunStatus, RunsFilter

from ilyama_resources.postgres import Gateway
from ilyama_resources.postgres.resource import run_lock

AT_WORK = [DagsterRunStatus.QUEUED, DagsterRunStatus.STARTING, DagsterRunStatus.STARTED]
_MAY_HAVE_DIED = [*AT_WORK, DagsterRunStatus.CANCELING]
STOPPED = "The stack was stopped. The work of this run goes on in the next one."
STARTS_WITHIN = timedelta(seconds=90)
"""A run that was just requested needs some time until its process holds its lock."""


def dead_runs(
    instance: DagsterInstance, gateway: Gateway, *, requested_before: datetime
) -> set[str]:
    """Runs at work, requested before a moment, whose lock nobody holds.

    The lock lies in Postgres and dies with the run's process. Between its last step and its end a
    run does not hold it either: only one found twice, some seconds apart, is dead for sure.
    """
    at_work = instance.get_run_records(RunsFilter(statuses=_MAY_HAVE_DIED))
    return {
        record.dagster_run.run_id
        for record in at_work
        if record.create_timestamp.replace(tzinfo=UTC) < requested_before
        and gateway.is_free(run_lock(record.dagster_run.run_id))
    }


def request_ends(instance: DagsterInstance) -> None:
    """Tell Dagster that all runs are about to be stopped: they are canceled, and did not fail."""
    for run in instance.get_runs(RunsFilter(statuses=AT_WORK)):
        instance.report_run_canceling(run, message=STOPPED)


def report_dead(instance: DagsterInstance, run_id: str) -> None:
    """Let Dagster know that a run has died; one that was to end has done what it should."""
    run = instance.get_run_by_id(run_id)
    if run is not None and run.status is DagsterRunStatus.CANCELING:
        instance.report_run_canceled(run, message="The process of this run has ended.")
    elif run is not None and run.status in AT_WORK:
        told = "The process of this run died without a word. Its work goes on in the next run."
        instance.report_run_failed(run, message=told)
