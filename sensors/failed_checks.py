"""Waits for asset checks that do not hold, and writes down what happened for a person."""

from collections.abc import Sequence
from typing import NamedTuple

from dagster import (
    AssetCheckEvaluation,
    DagsterEventType,
    DagsterInstance,
    DefaultSensorStatus,
    EventLogRecord,
    EventRecordsFilter,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)

from ilyama_resources.postgres.events import Event, Severity
from ilyama_resources.postgres.resource import Records

EVENT_TYPE = "CHECK_FAILED"
_AT_ONCE = 200


class CheckPlan(NamedTuple):
    """The events to write, and up to where the evaluations were read."""

    events: list[Event]
    cursor: str | None


def plan_events(
    evaluations: Sequence[tuple[int, str, AssetCheckEvaluation]], cursor: str | None
) -> CheckPlan:
    """An event for every evaluation, given with its place and run, that does not hold."""
    events = [_event(run_id, found) for _, run_id, found in evaluations if not found.passed]
    return CheckPlan(events, str(evaluations[-1][0]) if evaluations else cursor)


@sensor(
    minimum_interval_seconds=15,
    default_status=DefaultSensorStatus.RUNNING,
    description="Writes an event and a log line for every check that fails.",
)
def failed_checks(context: SensorEvaluationContext, records: Records) -> SensorResult | SkipReason:
    """Write an event row and a log line for every check that does not hold."""
    plan = plan_events(_evaluations(context.instance, context.cursor), context.cursor)
    with records.gateway.transaction() as tx:
        for event in plan.events:
            tx.events.write(event)
            context.log.error(event.message)
        tx.commit()
    if plan.cursor == context.cursor:
        return SkipReason("no check was evaluated since the last look")
    told = f"{len(plan.events)} checks did not hold" if plan.events else "all checks held"
    return SensorResult(skip_reason=told, cursor=plan.cursor)


def _evaluations(
    instance: DagsterInstance, cursor: str | None
) -> list[tuple[int, str, AssetCheckEvaluation]]:
    wanted = EventRecordsFilter(
        DagsterEventType.ASSET_CHECK_EVALUATION, after_cursor=int(cursor) if cursor else None
    )
    records = instance.get_event_records(wanted, limit=_AT_ONCE, ascending=True)
    return [(record.storage_id, record.run_id, _evaluation(record)) for record in records]


def _evaluation(record: EventLogRecord) -> AssetCheckEvaluation:
    event = record.event_log_entry.dagster_event
    if event is None:
        raise LookupError(f"record {record.storage_id} holds no event")
    return event.asset_check_evaluation_data


def _event(run_id: str, found: AssetCheckEvaluation) -> Event:
    asset = found.asset_key.to_user_string()
    advice = found.metadata.get("what to do")
    return Event(
        identity=f"{run_id}:{asset}:{found.check_name}",
        event_type=EVENT_TYPE,
        severity=Severity[found.severity.value],
        message=f"Check {found.check_name} of {asset}: {found.description or 'does not hold'}",
        details={
            "run_id": run_id,
            "asset": asset,
            "check": found.check_name,
            "what to do": str(advice.value) if advice is not None else "",
        },
    )
