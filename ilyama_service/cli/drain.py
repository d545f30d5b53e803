"""`ilyama drain`: take up everything that landed, in the foreground."""

import logging
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime
from typing import Any, cast

from dagster import (
    AssetCheckEvaluation,
    AssetCheckSeverity,
    DagsterInstance,
    DynamicPartitionsDefinition,
    JobDefinition,
)
from dagster._core.errors import DagsterAssetCheckFailedError
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from ilyama_resources.embedded.postgres_server import postgres_in_use
from ilyama_resources.embedded.spark_server import spark_in_use
from ilyama_resources.errors import PlatformError
from ilyama_resources.landing.directory import Landing
from ilyama_resources.landing.replays import ReplayLanding, ReplaysCannotLand
from ilyama_resources.postgres import Gateway, LockTaken
from ilyama_resources.settings import Settings, load_settings
from ilyama_service.cli.consoles import console, errors
from ilyama_service.cli.derived import Derived
from ilyama_service.dagster_home import DagsterHome
from ilyama_service.dagster_instances import foreground_instance

POLL_S = 0.5
_DERIVING = {Derived.CURRENT_VALUE: "serving_job", Derived.DEVICE_TABLES: "device_tables_job"}
_QUIET: dict[str, Any] = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def drain_everything(*, verify: bool, skipped: Collection[Derived] = ()) -> None:
    """Drain until nothing waits, bring derived tables up to date, and verify when asked to."""
    # Libraries warn of every attempt; a person is told once, and what it means.
    logging.basicConfig(level=logging.ERROR)
    derived = [table for table in Derived if table not in skipped]
    settings = load_settings()
    settings.make_directories()
    with postgres_in_use(settings) as url:
        gateway = Gateway(url)
        gateway.migrate()
        landing = Landing(settings.landing)
        landing.register_found(gateway)
        failure = _land_replays(settings, gateway, landing)
        if verify or _something_waits(gateway, derived):
            _say_when_another_drains(gateway)
            with spark_in_use(settings), _progress(gateway):
                _run(settings, gateway, derived, verify=verify)
        _report(gateway)
        gateway.close()
    if failure is not None:
        raise failure


def _land_replays(
    settings: Settings, gateway: Gateway, landing: Landing
) -> ReplaysCannotLand | None:
    """Land the rejections that are to be replayed; what prevents it keeps nothing else waiting."""
    size = settings.segment_max_bytes
    try:
        ReplayLanding(gateway, landing, settings.warehouse, segment_max_bytes=size).land()
    except ReplaysCannotLand as error:
        return error
    return None


def _run(
    settings: Settings, gateway: Gateway, derived: Collection[Derived], *, verify: bool
) -> None:
    from ilyama_assets.definitions import defs

    home = DagsterHome(settings)
    home.prepare(gateway)
    with foreground_instance(home) as instance:
        intake = defs.resolve_job_def("intake_job")
        days = cast(DynamicPartitionsDefinition, intake.partitions_def).name or ""
        config = _QUIET | {"ops": {"intake": {"config": _TO_THE_END}}}
        while (day := _next_day(gateway)) is not None:
            instance.add_dynamic_partitions(days, [day.isoformat()])
            intake.execute_in_process(
                instance=instance, partition_key=day.isoformat(), run_config=config
            )
        jobs = [_DERIVING[table] for table in derived]
        for job in (*jobs, *(["verification_job"] if verify else [])):
            _check_reports(defs.resolve_job_def(job), instance)


def _check_reports(job: JobDefinition, instance: DagsterInstance) -> None:
    """Run a job; a check that does not hold is told, and one that should is an error."""
    try:
        result = job.execute_in_process(instance=instance, run_config=_QUIET)
    except DagsterAssetCheckFailedError as error:
        raise ChecksFailed(str(error)) from error
    failed = [found for found in result.get_asset_check_evaluations() if not found.passed]
    wrong = [found for found in failed if found.severity is AssetCheckSeverity.ERROR]
    for found in failed:
        if found not in wrong:
            errors.print(_told(found), style="yellow", markup=False, highlight=False)
    if wrong:
        told = "; ".join(map(_told, wrong))
        raise ChecksFailed(f"{told}. The check's report in the Dagster UI says what to do.")


def _told(found: AssetCheckEvaluation) -> str:
    return f"{found.check_name} on {found.asset_key.to_user_string()}: {found.description}"


class ChecksFailed(PlatformError):
    """An asset check does not hold."""


_TO_THE_END = {"idle_s": 0.0, "max_s": 1e9, "apart_s": 0.0, "replay_when_idle": False}


def _say_when_another_drains(gateway: Gateway) -> None:
    try:
        with gateway.lock("drain", wait=False):
            return
    except LockTaken:
        errors.print("Another drain is at work; waiting until it is done.", highlight=False)


def _next_day(gateway: Gateway) -> date | None:
    with gateway.transaction() as tx:
        unfinished, pending = tx.drains.unfinished(), tx.segments.pending()
        free = tx.backlog.free()
    if unfinished is not None:
        return unfinished.day
    if pending:
        return pending[0].day
    return datetime.now(UTC).date() if free.lineages else None


def _something_waits(gateway: Gateway, derived: Collection[Derived]) -> bool:
    with gateway.transaction() as tx:
        last = tx.drains.last_done_id()
        behind = any(tx.derived_runs.last(table).to_drain < last for table in derived)
        moved = Derived.DEVICE_TABLES in derived and tx.device_table_moves.wait()
    return behind or moved or _next_day(gateway) is not None


@contextmanager
def _progress(gateway: Gateway) -> Iterator[None]:
    """Show how much of what waited at the start has been taken up."""
    columns = (
        TextColumn("draining"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} messages"),
        TimeElapsedColumn(),
    )
    stopped = threading.Event()
    with Progress(*columns, console=errors, transient=True) as progress:
        task = progress.add_task("drain", total=_waiting(gateway))
        watcher = threading.Thread(target=_watch, args=(gateway, progress, task, stopped))
        watcher.start()
        try:
            yield
        finally:
            stopped.set()
            watcher.join()


def _watch(gateway: Gateway, progress: Progress, task: Any, stopped: threading.Event) -> None:
    total = progress.tasks[task].total or 0
    with suppress(PlatformError):
        while not stopped.wait(POLL_S):
            progress.update(task, completed=total - _waiting(gateway))


def _waiting(gateway: Gateway) -> int:
    with gateway.transaction() as tx:
        unfinished = tx.drains.unfinished()
        pending = sum(day.messages for day in tx.segments.pending())
    return pending + (unfinished.messages if unfinished is not None else 0)


def _report(gateway: Gateway) -> None:
    with gateway.transaction() as tx:
        newest = tx.drains.page(limit=1)
    if newest:
        told = f"nothing is waiting; the last drain is {newest[0].drain_id} of {newest[0].day}"
    else:
        told = "nothing has landed yet; `ilyama import FILE.jsonl` lands captured traffic"
    console.print(f"{told}.", highlight=False)
