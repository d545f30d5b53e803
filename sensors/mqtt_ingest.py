"""Waits for what devices publish: lands it, and asks for a run that drains its day.

Each tick resumes the platform's session on the broker, lands what comes for some seconds, and
leaves; between ticks the broker keeps what comes. With `ILYAMA_INGEST=process` another process
lands, and the tick only looks at what has landed.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec
from dagster import (
    DefaultSensorStatus,
    RunRequest,
    SensorEvaluationContext,
    SensorResult,
    sensor,
)

from ilyama_assets.jobs import DRAIN_ONLY, intake_job
from ilyama_assets.partitions import ensure_days
from ilyama_resources.dagster_runs import STARTS_WITHIN, dead_runs, report_dead
from ilyama_resources.errors import PlatformError
from ilyama_resources.lake import DeltaLake
from ilyama_resources.landing.replays import ReplayLanding
from ilyama_resources.mqtt.errors import LandingBusy
from ilyama_resources.mqtt.reports import LandingReport
from ilyama_resources.mqtt.resource import Broker
from ilyama_resources.postgres import Gateway
from ilyama_resources.postgres.resource import Records
from ilyama_resources.settings import Ingest, load_settings
from sensors.intake_runs import intake_runs
from sensors.run_planning import RunPlan, plan_run

REASON = "ilyama/reason"
LONGEST_REASON = 500
"""Dagster indexes tags, and an index entry has no room for whatever an error tells."""
LAND_FOR_S = 20.0
LAND_AT_LEAST_S = 1.0
LOOK_EVERY_S = 1.0
REPLAYS_PER_TICK = 4
"""Segments of rejections that are to be replayed: the tick has other things to do."""


class Cursor(msgspec.Struct):
    """What one tick leaves to the next: runs that looked dead."""

    suspects: set[str] = set()


@sensor(
    job=intake_job,
    minimum_interval_seconds=1,
    default_status=DefaultSensorStatus.RUNNING,
    description="Lands what devices publish, and asks for a run when something waits.",
)
def mqtt_ingest(
    context: SensorEvaluationContext, records: Records, lake: DeltaLake, broker: Broker
) -> SensorResult:
    """Land what devices publish; request a run when something waits that none at work takes."""
    cursor = _bury_dead_runs(context, records.gateway)
    lake.landing.register_found(records.gateway)
    replayed = _land_replays(records.gateway, lake)

    def plan() -> RunPlan:
        return _plan(context, records.gateway)

    landed = _land(broker, records.gateway, until=_worth_a_run(plan))
    decided = plan()
    told = "; ".join(filter(None, (replayed.told, landed.told, decided.reason)))
    error = landed.error or replayed.error
    if decided.day is None and error is not None:
        raise error
    if decided.day is None:
        return SensorResult(skip_reason=told, cursor=cursor)
    ensure_days(context.instance, [decided.day])
    request = RunRequest(
        partition_key=decided.day.isoformat(),
        run_config=DRAIN_ONLY,
        tags={REASON: told[:LONGEST_REASON]},
    )
    return SensorResult(run_requests=[request], cursor=cursor)


class Landed(NamedTuple):
    """What a tick landed, in words, and what went wrong; a run may be due all the same."""

    told: str = ""
    error: Exception | None = None


def _land_replays(gateway: Gateway, lake: DeltaLake) -> Landed:
    """Land some of the rejections that are to be replayed; the next ticks land the rest.

    Whatever goes wrong with them, what devices send must land.
    """
    settings = load_settings()
    replays = ReplayLanding(
        gateway, lake.landing, settings.warehouse, segment_max_bytes=settings.segment_max_bytes
    )
    try:
        replays.land(at_most=REPLAYS_PER_TICK)
    except Exception as error:
        return Landed(str(error), error)
    return Landed()


def _plan(context: SensorEvaluationContext, gateway: Gateway) -> RunPlan:
    with gateway.transaction() as tx:
        pending, unfinished = tx.segments.pending(), tx.drains.unfinished()
        free = tx.backlog.free()
    return plan_run(
        pending,
        unfinished,
        intake_runs(context.instance),
        now=datetime.now(UTC),
        run_lasts=timedelta(seconds=load_settings().run_max_s),
        free_lineages=free.lineages,
    )


def _worth_a_run(plan: Callable[[], RunPlan]) -> Callable[[LandingReport], bool]:
    """Look now and then, while messages land, whether a run is due."""
    started = time.monotonic()
    looked_at = started + LAND_AT_LEAST_S - LOOK_EVERY_S

    def due(report: LandingReport) -> bool:
        nonlocal looked_at
        del report
        if time.monotonic() - looked_at < LOOK_EVERY_S:
            return False
        looked_at = time.monotonic()
        return plan().day is not None

    return due


def _land(broker: Broker, gateway: Gateway, *, until: Callable[[LandingReport], bool]) -> Landed:
    if load_settings().ingest is Ingest.PROCESS:
        return Landed()
    try:
        with broker.subscriber(gateway) as subscriber, subscriber.session() as session:
            report = session.land_for(LAND_FOR_S, until)
    except LandingBusy as error:
        return Landed(str(error))
    except PlatformError as error:
        return Landed(str(error), error)
    counted = (
        f"landed {report.messages:,} messages in {report.segments:,} segments, "
        f"memory at most {report.fullest:.0%} full"
    )
    told = [counted] if report.segments else []
    if report.trouble is None:
        return Landed("; ".join(told))
    return Landed("; ".join((*told, report.trouble)), PlatformError(report.trouble))


def _bury_dead_runs(context: SensorEvaluationContext, gateway: Gateway) -> str:
    """Report runs that were found dead in two ticks, so that they do not block the next."""
    before = msgspec.json.decode(context.cursor, type=Cursor) if context.cursor else Cursor()
    long_ago = datetime.now(UTC) - STARTS_WITHIN
    dead = dead_runs(context.instance, gateway, requested_before=long_ago)
    for run_id in dead & before.suspects:
        report_dead(context.instance, run_id)
        context.log.error(f"run {run_id} had died; Dagster is told so")
    return msgspec.json.encode(Cursor(dead - before.suspects)).decode()
