"""When current values are derived without anybody asking."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

import pytest
from dagster import (
    AssetCheckEvaluation,
    AssetCheckKey,
    AssetKey,
    AssetMaterialization,
    DagsterInstance,
    evaluate_automation_conditions,
)
from dagster._core.definitions.asset_daemon_cursor import AssetDaemonCursor

from ilyama_assets.checks.intake import INTAKE_CHECKS
from ilyama_assets.definitions import defs
from ilyama_assets.partitions import ARRIVAL_DAYS
from ilyama_assets.tables import CURRENT_VALUE, METRIC_DATAPOINT, STATE_DATAPOINT

DAY = "2026-05-01"
SOURCES = (METRIC_DATAPOINT.name, STATE_DATAPOINT.name)


@pytest.fixture
def instance() -> Iterator[DagsterInstance]:
    with DagsterInstance.ephemeral() as made:
        made.add_dynamic_partitions(ARRIVAL_DAYS.name or "", [DAY])
        yield made


class Ticks:
    """The ticks of the automation sensor, one after another."""

    def __init__(self, instance: DagsterInstance) -> None:
        self._instance = instance
        self._cursor: AssetDaemonCursor | None = None
        self.requested()

    def requested(self) -> int:
        """How many runs of current_value the next tick asks for."""
        told = evaluate_automation_conditions(defs, self._instance, cursor=self._cursor)
        self._cursor = told.cursor
        return told.get_num_requested(AssetKey(CURRENT_VALUE.name))


NIGHTLY = (
    AssetCheckKey(AssetKey("row_changes"), "one_row_per_dedup_key_in_table"),
    AssetCheckKey(AssetKey("device_tables"), "mirror_parity"),
)
START = datetime(2026, 5, 1, 12, 0, 30, tzinfo=UTC)


def checked_at(
    instance: DagsterInstance, key: AssetCheckKey, moments: Sequence[datetime]
) -> list[int]:
    """How often each tick asks for a check of a whole table; its first answer comes at once."""
    cursor, asked = None, []
    for moment in moments:
        told = evaluate_automation_conditions(defs, instance, cursor=cursor, evaluation_time=moment)
        cursor = told.cursor
        asked.append(sum(one.true_subset.size for one in told.results if one.key == key))
        if asked[-1]:
            evaluation = AssetCheckEvaluation(
                asset_key=key.asset_key, check_name=key.name, passed=True, metadata={}
            )
            instance.report_runless_asset_event(evaluation)
    return asked


@pytest.mark.parametrize("key", NIGHTLY, ids=lambda key: key.name)
def test_a_check_of_a_whole_table_is_run_soon_and_then_every_night(
    instance: DagsterInstance, key: AssetCheckKey
) -> None:
    minutes = (0, 5, 11, 21, 31)
    today = [START + timedelta(minutes=after) for after in minutes]
    night = START.replace(day=2, hour=3, minute=18)

    assert checked_at(instance, key, [*today, night]) == [0, 0, 1, 0, 0, 1]


def write(instance: DagsterInstance) -> None:
    """Tell Dagster that intake has written the datapoints."""
    for table in SOURCES:
        instance.report_runless_asset_event(AssetMaterialization(table, partition=DAY))


def check(instance: DagsterInstance, *, holds: bool) -> None:
    """Tell Dagster what the checks of a drain have found."""
    for spec in INTAKE_CHECKS:
        evaluation = AssetCheckEvaluation(
            asset_key=spec.asset_key, check_name=spec.name, passed=holds, metadata={}
        )
        instance.report_runless_asset_event(evaluation)


def test_current_values_are_derived_once_after_a_drain_whose_checks_hold(
    instance: DagsterInstance,
) -> None:
    ticks = Ticks(instance)
    write(instance)
    check(instance, holds=True)
    assert [ticks.requested(), ticks.requested()] == [1, 0]


def test_current_values_are_derived_when_a_tick_falls_between_a_drain_and_its_checks(
    instance: DagsterInstance,
) -> None:
    ticks = Ticks(instance)
    write(instance)
    assert ticks.requested() == 0
    check(instance, holds=True)
    assert ticks.requested() == 1


def test_current_values_are_left_alone_when_nothing_was_drained(instance: DagsterInstance) -> None:
    assert Ticks(instance).requested() == 0


def test_current_values_are_left_alone_when_a_check_of_the_drain_fails(
    instance: DagsterInstance,
) -> None:
    ticks = Ticks(instance)
    write(instance)
    check(instance, holds=False)
    assert ticks.requested() == 0


def test_a_check_of_a_whole_table_that_fails_holds_nothing_back(instance: DagsterInstance) -> None:
    ticks = Ticks(instance)
    failed = AssetCheckEvaluation(
        asset_key=AssetKey(METRIC_DATAPOINT.name),
        check_name="one_value_per_moment_in_table",
        passed=False,
        metadata={},
    )
    instance.report_runless_asset_event(failed)
    write(instance)
    check(instance, holds=True)
    assert ticks.requested() == 1


def test_current_values_are_derived_while_the_next_run_of_intake_is_at_work(
    instance: DagsterInstance,
) -> None:
    ticks = Ticks(instance)
    write(instance)
    check(instance, holds=True)
    instance.create_run_for_job(defs.resolve_job_def("intake_job"), tags={"dagster/partition": DAY})
    assert [ticks.requested(), ticks.requested()] == [1, 0]
