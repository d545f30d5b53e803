"""Dagster's storage asks Postgres for its tables and columns once."""

from collections.abc import Iterator
from typing import Any

import pytest
from dagster import (
    AssetCheckKey,
    AssetCheckResult,
    AssetCheckSpec,
    AssetKey,
    AssetMaterialization,
    AssetOut,
    DagsterEventType,
    DagsterInstance,
    Definitions,
    MaterializeResult,
    Nothing,
    job,
    multi_asset,
    op,
)
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus
from sqlalchemy import create_engine, event, text
from sqlalchemy.engine import Engine
from sqlalchemy.pool import NullPool, Pool

from ilyama_service import dagster_storage
from ilyama_service.dagster_home import HOME_VARIABLE, URL_VARIABLE, DagsterHome
from ilyama_service.dagster_instances import foreground_instance
from ilyama_service.dagster_storage import RememberingEventLog, RememberingRuns
from tests.platform import Platform

ASSET = AssetKey("some_table")
ASSETS = ("first_table", "second_table")
CHECKS = ("is_there",)
_FOLLOWS_AN_OUTPUT = {
    DagsterEventType.ASSET_MATERIALIZATION,
    DagsterEventType.ASSET_CHECK_EVALUATION,
}


@pytest.fixture
def instance(
    platform_without_spark: Platform, monkeypatch: pytest.MonkeyPatch
) -> Iterator[DagsterInstance]:
    for name in (HOME_VARIABLE, URL_VARIABLE):
        monkeypatch.setenv(name, "")
    home = DagsterHome(platform_without_spark.settings)
    home.prepare(platform_without_spark.gateway)
    with foreground_instance(home) as instance:
        yield instance


@pytest.fixture
def catalog_reads() -> Iterator[list[str]]:
    reads: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if "pg_catalog" in statement:
            reads.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    yield reads
    event.remove(Engine, "before_cursor_execute", note)


def test_the_catalog_is_not_read_again_for_every_event(
    catalog_reads: list[str], instance: DagsterInstance
) -> None:
    assert isinstance(instance.event_log_storage, RememberingEventLog)
    instance.report_runless_asset_event(AssetMaterialization(ASSET, tags={"a": "b"}))
    assert catalog_reads
    catalog_reads.clear()

    instance.report_runless_asset_event(AssetMaterialization(ASSET, tags={"a": "c"}))

    assert catalog_reads == []
    stored = instance.fetch_materializations(ASSET, limit=2).records
    told = [record.asset_materialization for record in stored]
    assert [one.tags for one in told if one is not None] == [{"a": "c"}, {"a": "b"}]


def test_the_catalog_is_not_read_again_for_every_run(
    catalog_reads: list[str], instance: DagsterInstance
) -> None:
    assert isinstance(instance.run_storage, RememberingRuns)
    first = _nothing.execute_in_process(instance=instance)
    assert catalog_reads
    catalog_reads.clear()

    second = _nothing.execute_in_process(instance=instance)

    assert catalog_reads == []
    assert {run.run_id for run in instance.get_runs()} == {first.run_id, second.run_id}
    stats = instance.get_run_record_by_id(second.run_id)
    assert stats is not None
    assert stats.start_time
    assert stats.end_time


def test_a_run_opens_no_connection_when_one_is_open(instance: DagsterInstance) -> None:
    _nothing.execute_in_process(instance=instance)
    opened: list[object] = []

    def note(connection: object, _record: object) -> None:
        opened.append(connection)

    event.listen(Pool, "connect", note)
    run = _nothing.execute_in_process(instance=instance)
    event.remove(Pool, "connect", note)

    assert run.success
    assert opened == []


def test_a_connection_that_was_lost_while_idle_is_replaced(
    instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _nothing.execute_in_process(instance=instance)
    monkeypatch.setattr(dagster_storage, "_TRUSTED_S", 0.0)
    assert isinstance(instance.run_storage, RememberingRuns)
    assert _ended_connections(instance.run_storage.postgres_url) > 0

    after = _nothing.execute_in_process(instance=instance)

    assert {run.run_id for run in instance.get_runs()} == {before.run_id, after.run_id}


def _ended_connections(url: str) -> int:
    """End all connections to a database but the one that does it; how many these were."""
    others = "datname = current_database() AND pid <> pg_backend_pid()"
    query = f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {others}"
    engine = create_engine(url, poolclass=NullPool)
    with engine.connect() as connection:
        return int(connection.scalar(text(query)))


def test_what_was_put_out_is_there_for_whoever_reads(instance: DagsterInstance) -> None:
    run = _nothing.execute_in_process(instance=instance)
    (an_output,) = [
        entry
        for entry in instance.all_logs(run.run_id)
        if entry.dagster_event_type is DagsterEventType.STEP_OUTPUT
    ]

    instance.event_log_storage.store_event(an_output)

    types = [entry.dagster_event_type for entry in instance.all_logs(run.run_id)]
    assert types.count(DagsterEventType.STEP_OUTPUT) == 2


def test_what_a_run_is_going_to_do_and_what_it_puts_out_are_stored_together(
    instance: DagsterInstance,
) -> None:
    statements: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        statements.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    run = _defs.resolve_implicit_global_asset_job_def().execute_in_process(instance=instance)
    event.remove(Engine, "before_cursor_execute", note)

    stored = instance.all_logs(run.run_id)
    inserted = [s for s in statements if s.startswith("INSERT INTO event_logs")]
    types = [entry.dagster_event_type for entry in stored]
    planned_together = len(ASSETS) + len(CHECKS) - 1
    put_out = types.count(DagsterEventType.STEP_OUTPUT)
    assert put_out == len(ASSETS) + len(CHECKS)
    assert len(inserted) == len(stored) - planned_together - put_out
    for place, of_type in enumerate(types):
        if of_type is DagsterEventType.STEP_OUTPUT:
            assert types[place + 1] in _FOLLOWS_AN_OUTPUT
    planned = DagsterEventType.ASSET_MATERIALIZATION_PLANNED
    told = [entry.dagster_event for entry in stored]
    planned_for = [e.asset_key for e in told if e is not None and e.event_type is planned]
    assert sorted(key.to_user_string() for key in planned_for if key) == sorted(ASSETS)
    assert not [s for s in statements if s.startswith("NOTIFY")]
    for name in ASSETS:
        record = instance.get_latest_materialization_event(AssetKey(name))
        assert record is not None
        assert record.run_id == run.run_id
    (check,) = instance.event_log_storage.get_asset_check_execution_history(
        AssetCheckKey(AssetKey(ASSETS[0]), CHECKS[0]), limit=5
    )
    assert check.status is AssetCheckExecutionRecordStatus.SUCCEEDED


@multi_asset(
    outs={name: AssetOut(dagster_type=Nothing) for name in ASSETS},
    check_specs=[AssetCheckSpec(name, asset=ASSETS[0]) for name in CHECKS],
)
def _two_assets() -> Iterator[MaterializeResult[Any] | AssetCheckResult]:
    for name in ASSETS:
        yield MaterializeResult(asset_key=name)
    yield AssetCheckResult(passed=True, asset_key=ASSETS[0])


_defs = Definitions(assets=[_two_assets])


@op
def _do_nothing() -> None:
    pass


@job
def _nothing() -> None:
    _do_nothing()


def test_a_partition_is_asked_for_until_it_is_there_and_again_when_it_was_deleted(
    instance: DagsterInstance,
) -> None:
    assert not instance.has_dynamic_partition("days", "2026-04-28")
    instance.add_dynamic_partitions("days", ["2026-04-28"])
    statements: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        statements.append(statement)

    assert instance.has_dynamic_partition("days", "2026-04-28")
    event.listen(Engine, "before_cursor_execute", note)
    assert instance.has_dynamic_partition("days", "2026-04-28")
    event.remove(Engine, "before_cursor_execute", note)
    assert statements == []
    instance.delete_dynamic_partition("days", "2026-04-28")
    assert not instance.has_dynamic_partition("days", "2026-04-28")
