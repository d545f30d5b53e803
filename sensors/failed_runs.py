"""Waits for runs that fail, and writes down what happened for a person."""

from dagster import DefaultSensorStatus, RunFailureSensorContext, run_failure_sensor

from ilyama_resources.postgres.events import Event, Severity
from ilyama_resources.postgres.resource import Records

EVENT_TYPE = "RUN_FAILED"


def run_failed(run_id: str, job: str, reason: str) -> Event:
    """The event of a failed run."""
    return Event(
        identity=run_id,
        event_type=EVENT_TYPE,
        severity=Severity.ERROR,
        message=f"Run {run_id[:8]} of {job} failed: {_gist(reason)}",
        details={"run_id": run_id, "job": job, "reason": reason},
    )


@run_failure_sensor(
    default_status=DefaultSensorStatus.RUNNING,
    minimum_interval_seconds=10,
    description="Writes an event and a log line for every run that failed.",
)
def failed_runs(context: RunFailureSensorContext, records: Records) -> None:
    """Write an event row and a log line for every run that failed."""
    run = context.dagster_run
    event = run_failed(run.run_id, run.job_name, _reason(context))
    with records.gateway.transaction() as tx:
        tx.events.write(event)
        tx.commit()
    context.log.error(event.message)


def _reason(context: RunFailureSensorContext) -> str:
    """What went wrong in the step that failed, rather than that it did."""
    for step in context.get_step_failure_events():
        failure = step.step_failure_data.error
        if failure is not None:
            return str((failure.cause or failure).message)
    return context.failure_event.message or "no reason was given"


def _gist(reason: str) -> str:
    lines = [line.strip() for line in reason.splitlines() if line.strip()]
    return lines[0][:500] if lines else "no reason was given"
