"""What a person sees of gaps, conflicts and schemas that wait, in the UI and on a terminal."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from dagster import (
    AssetCheckResult,
    AssetCheckSeverity,
    MarkdownMetadataValue,
    MaterializeResult,
    TableMetadataValue,
)

from ilyama_assets.checks.waiting import (
    no_key_came_with_other_content,
    no_schema_waits_for_a_person,
    no_telemetry_is_missing,
)
from ilyama_assets.drains.running import RunReport
from ilyama_assets.intake import results_of
from ilyama_assets.sequence_gaps import sequence_gaps
from ilyama_assets.tables import INTAKE_TABLES, KEY_CONFLICTS
from ilyama_protocol.intake.sequences import Island, SequenceChange, SequenceKind
from ilyama_protocol.moments import utc
from ilyama_resources.postgres.sequences import RejectedBatch
from tests.command_line import run_ilyama
from tests.conflict_records import conflict, list_conflicts
from tests.governed import asked, queue, register
from tests.platform import Platform

NOW = 1_777_366_800_000_000
DEVICE = "acme/a-device-with-a-name-that-is-longer-than-it-need-be-but-legal-all-the-same"
TABLE = "readings_of_the_second_compressor_in_the_cellar"
EPOCH = "019693d0-0000-7000-8000-00000000000a"
REJECTION = "00000000-0000-8000-8000-000000000001"


class _Has(SimpleNamespace):
    """A resource in a test."""


def _open_gaps(platform: Platform) -> None:
    """Gaps of telemetry and of a journal; a rejection explains the widest of telemetry."""
    gaps: Mapping[SequenceKind, list[Island]] = {
        SequenceKind.TELEMETRY: [(3, 3), (5, 9)],
        SequenceKind.ROWS: [(20, 29)],
    }
    names = {SequenceKind.TELEMETRY: TABLE, SequenceKind.ROWS: EPOCH}
    changes = [
        (DEVICE, SequenceChange(kind, names[kind], 0, NOW, opened, unlisted=unlisted))
        for (kind, opened), unlisted in zip(gaps.items(), (0, 7), strict=True)
    ]
    rejected = RejectedBatch(
        REJECTION, DEVICE, "telemetry", TABLE, 6, 6, "invalid_row", TABLE, utc(NOW)
    )
    with platform.gateway.transaction() as tx:
        tx.sequences.advance(changes, drain_id=4)
        tx.sequences.note_rejections([rejected])
        tx.commit()


def _gaps_checked(platform: Platform) -> AssetCheckResult:
    found = no_telemetry_is_missing(_Has(gateway=platform.gateway))
    assert isinstance(found, AssetCheckResult)
    return found


def _schemas_checked(platform: Platform) -> AssetCheckResult:
    found = no_schema_waits_for_a_person(_Has(gateway=platform.gateway))
    assert isinstance(found, AssetCheckResult)
    return found


def _offending(found: AssetCheckResult) -> list[dict[str, Any]]:
    table = found.metadata["offending rows"]
    assert isinstance(table, TableMetadataValue)
    return [dict(record.data) for record in table.records]


def _markdown(value: Any) -> str:
    assert isinstance(value, MarkdownMetadataValue)
    return value.value or ""


def test_the_check_of_gaps_holds_while_only_journals_have_some(
    platform_without_spark: Platform,
) -> None:
    journal = SequenceChange(SequenceKind.ROWS, EPOCH, 0, NOW, [(20, 29)])
    with platform_without_spark.gateway.transaction() as tx:
        tx.sequences.advance([(DEVICE, journal)], drain_id=4)
        tx.commit()
    found = _gaps_checked(platform_without_spark)

    assert found.passed
    assert found.metadata["numbers of rows missing"].value == 10
    assert found.metadata.keys() & {"what to do", "offending rows"} == set()


def test_the_check_of_gaps_lists_those_of_telemetry_with_what_explains_them(
    platform_without_spark: Platform,
) -> None:
    _open_gaps(platform_without_spark)
    found = _gaps_checked(platform_without_spark)

    assert not found.passed
    assert found.metadata["numbers of telemetry missing"].value == 6
    offending = _offending(found)
    assert [(row["first_missing"], row["rejections"]) for row in offending] == [(3, 0), (5, 1)]
    assert offending[1]["rejection_ids"] == f'["{REJECTION}"]'


def test_the_check_of_reviews_holds_while_nothing_waits(platform_without_spark: Platform) -> None:
    found = _schemas_checked(platform_without_spark)

    assert found.passed
    assert found.metadata["schemas without room for a review"].value == 0


def test_the_check_of_reviews_lists_the_schemas_that_wait(
    platform_without_spark: Platform,
) -> None:
    for device in ("dev-1", "dev-2"):
        register(platform_without_spark.gateway, device)
        queue(platform_without_spark.gateway, asked(device))
    found = _schemas_checked(platform_without_spark)

    assert not found.passed
    (waits,) = _offending(found)
    assert (waits["devices"], waits["schema"]) == (2, asked("dev-1").schema_hash[:12])
    assert waits["review"] == 1


def test_the_page_of_gaps_shows_the_widest_with_what_explains_them(
    platform_without_spark: Platform,
) -> None:
    platform = platform_without_spark
    _open_gaps(platform)
    done = sequence_gaps(_Has(gateway=platform.gateway), _Has(warehouse=platform.warehouse))

    assert isinstance(done, MaterializeResult)
    metadata: dict[str, Any] = {**(done.metadata or {})}
    assert metadata["bytes"] > 0
    assert metadata["numbers of journals in no listed gap, at least"] == 7
    *_, wide, narrow = _markdown(metadata["widest gaps of telemetry"]).splitlines()
    assert f"5 to 9 | 5 | 2026-04-28 09:00, drain 4 | 1 rejected: {REJECTION} |" in wide
    assert "3 to 3 | 1 | 2026-04-28 09:00, drain 4 | no rejection |" in narrow
    *_, journal = _markdown(metadata["widest gaps of journals, a hint"]).splitlines()
    assert f"| {EPOCH} | 0 | 20 to 29 | 10 |" in journal


def test_the_page_of_conflicts_shows_the_newest_whatever_the_run_listed(
    platform_without_spark: Platform,
) -> None:
    day = utc(NOW).date()
    before = _conflicts_of_a_quiet_run(platform_without_spark)
    told = {conflict(1, other="x" * 999): 7}
    list_conflicts(platform_without_spark.warehouse, told, drain_id=1, day=day)
    *_, line = _conflicts_of_a_quiet_run(platform_without_spark).splitlines()

    assert before == "No key has come with other content."
    assert line == (
        f'| {day} | acme/dev-1 | pumps | row | {{"commit\\_seq":1}} | a | {"x" * 200}… | 7 |'
    )


def _conflicts_of_a_quiet_run(platform: Platform) -> str:
    parts: Any = _Has(gateway=platform.gateway, warehouse=platform.warehouse)
    for contract in INTAKE_TABLES:
        platform.warehouse.ensure(contract)
    results = {
        result.asset_key.path[0]: result.metadata or {}
        for result in results_of(RunReport(), parts)
        if isinstance(result, MaterializeResult) and result.asset_key
    }
    return _markdown(results[KEY_CONFLICTS.name]["newest conflicts"])


def test_other_content_under_a_key_is_warned_of_for_a_week(
    platform_without_spark: Platform,
) -> None:
    lake = _Has(warehouse=platform_without_spark.warehouse)
    today = datetime.now(UTC).date()
    long_ago, last_night = (today - timedelta(days=days) for days in (9, 1))
    list_conflicts(lake.warehouse, {conflict(1): 5}, drain_id=1, day=long_ago)
    quiet = no_key_came_with_other_content(lake)
    list_conflicts(lake.warehouse, {conflict(2): 7}, drain_id=2, day=last_night)
    found = no_key_came_with_other_content(lake)

    assert isinstance(quiet, AssetCheckResult)
    assert quiet.passed
    assert isinstance(found, AssetCheckResult)
    assert (found.passed, found.severity) == (False, AssetCheckSeverity.WARN)
    assert "arrivals of other content in 7 days: 7" in (found.description or "")
    (row,) = _offending(found)
    assert (row["device"], row["day"]) == ("acme/dev-1", last_night.isoformat())


def _told(platform: Platform, *words: str) -> str:
    environment = platform.environment(COLUMNS="80")
    answer = run_ilyama(*words, environment=environment, within_s=60)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


@pytest.mark.parametrize("name", [DEVICE, TABLE, EPOCH, REJECTION, "5 to 9", "20 to 29"])
def test_gaps_are_listed_with_whole_names_on_a_narrow_terminal(
    platform_without_spark: Platform, name: str
) -> None:
    _open_gaps(platform_without_spark)
    assert name in _told(platform_without_spark, "gaps")


def test_gaps_of_one_table_are_those_of_its_telemetry(platform_without_spark: Platform) -> None:
    _open_gaps(platform_without_spark)

    assert EPOCH not in _told(platform_without_spark, "gaps", "--table", TABLE)
    assert _told(platform_without_spark, "gaps", "--table", "none") == "No number is missing.\n"
    assert TABLE not in _told(platform_without_spark, "gaps", "--kind", "rows")
    assert "At least 7 numbers" in _told(platform_without_spark, "gaps", "--device", DEVICE)
