"""Dagster's event log asks Postgres for its tables and columns once, and lets no run wait."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from threading import Event

import pytest
from dagster import (
    AssetKey,
    AssetMaterialization,
    DagsterEvent,
    DagsterEventType,
    DagsterInstance,
    EventLogEntry,
)
from sqlalchemy import event
from sqlalchemy.engine import Engine

from ilyama_service.dagster_event_log import RememberingEventLog, _WrittenBehind
from ilyama_service.dagster_home import HOME_VARIABLE, URL_VARIABLE, DagsterHome
from ilyama_service.dagster_instances import foreground_instance
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


RUN = "6c2f0c36-0000-4000-8000-000000000001"


def _told(number: int, told: DagsterEvent | None = None) -> EventLogEntry:
    return EventLogEntry(
        error_info=None,
        level=10,
        user_message=str(number),
        run_id=RUN,
        timestamp=float(number),
        dagster_event=told,
    )


def _that_the_run_began() -> DagsterEvent:
    return DagsterEvent(DagsterEventType.RUN_START.value, "some_job")


def _messages(instance: DagsterInstance) -> list[str]:
    return [entry.user_message for entry in instance.event_log_storage.get_logs_for_run(RUN)]


def test_who_reads_sees_all_that_was_told_in_its_order(instance: DagsterInstance) -> None:
    for number in range(50):
        instance.event_log_storage.store_event(_told(number))
    assert _messages(instance) == [str(number) for number in range(50)]


def test_a_run_does_not_wait_for_its_events() -> None:
    let_go = Event()
    stored: list[str] = []

    def slow(entries: Sequence[EventLogEntry]) -> None:
        assert let_go.wait(60)
        stored.extend(entry.user_message for entry in entries)

    behind = _WrittenBehind(slow)
    for number in range(3):
        behind.take(_told(number))
    assert stored == []
    let_go.set()
    behind.wait()
    assert stored == ["0", "1", "2"]


def test_all_is_there_before_a_run_is_said_to_stand_elsewhere(
    instance: DagsterInstance, platform_without_spark: Platform
) -> None:
    for number in range(20):
        instance.event_log_storage.store_event(_told(number))
    instance.event_log_storage.store_event(_told(20, _that_the_run_began()))
    with foreground_instance(DagsterHome(platform_without_spark.settings)) as somebody_else:
        assert _messages(somebody_else) == [str(number) for number in range(21)]


def test_an_event_that_cannot_be_stored_is_told_of_with_the_next() -> None:
    def refuse(_: Sequence[EventLogEntry]) -> None:
        raise OSError("no room")

    behind = _WrittenBehind(refuse)
    behind.take(_told(1))
    with pytest.raises(OSError, match="no room"):
        behind.wait()
    behind.wait()


def test_a_process_that_ends_writes_what_waits(platform_without_spark: Platform) -> None:
    home = DagsterHome(platform_without_spark.settings)
    home.prepare(platform_without_spark.gateway)
    program = (
        "from tests.stack.test_dagster_event_log import _told\n"
        "from ilyama_service.dagster_home import DagsterHome\n"
        "from ilyama_service.dagster_instances import foreground_instance\n"
        "from ilyama_resources.settings import load_settings\n"
        "instance = foreground_instance(DagsterHome(load_settings()))\n"
        "for number in range(20):\n"
        "    instance.event_log_storage.store_event(_told(number))\n"
    )
    variables = {name: os.environ[name] for name in (HOME_VARIABLE, URL_VARIABLE)}
    subprocess.run(
        [sys.executable, "-c", program],
        env=platform_without_spark.environment(**variables),
        check=True,
        timeout=120,
    )
    with foreground_instance(home) as instance:
        assert _messages(instance) == [str(number) for number in range(20)]
