"""Dagster's storage asks Postgres for its tables and columns once."""

from collections.abc import Iterator

import pytest
from dagster import AssetKey, AssetMaterialization, DagsterInstance, job, op
from sqlalchemy import event
from sqlalchemy.engine import Engine

from ilyama_service.dagster_home import HOME_VARIABLE, URL_VARIABLE, DagsterHome
from ilyama_service.dagster_instances import foreground_instance
from ilyama_service.dagster_storage import RememberingEventLog, RememberingRuns
from tests.platform import Platform

ASSET = AssetKey("some_table")


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
