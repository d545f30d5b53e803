"""Checks over whole tables hold after any traffic, and notice what another writer does to them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from dagster import AssetCheckResult, IntMetadataValue, TableMetadataValue
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.connect.dataframe import DataFrame

from ilyama_assets.checks import records, registries
from ilyama_assets.checks.accounts import ACCOUNT_CHECKS
from ilyama_assets.checks.records import RECORD_CHECKS
from ilyama_assets.checks.registries import ONE_KIND_PER_KEY, REGISTRY_CHECKS
from ilyama_assets.checks.reports import SAMPLE_ROWS
from ilyama_assets.checks.tables import TABLE_CHECKS
from ilyama_assets.checks.waiting import WAITING_CHECKS
from ilyama_assets.drains.protocol import Intake
from ilyama_assets.markdown import LONGEST_CELL
from ilyama_assets.tables import TABLES
from ilyama_protocol.intake.lineage_rulings import PauseReason
from ilyama_resources.delta.data_files import write_data_file
from ilyama_resources.postgres.lineages import LineageFilter
from tests.oracle import Event
from tests.platform import Platform, fresh_platform
from tests.streams import generate

CHECKS = {
    (spec.asset_key.to_user_string(), spec.name): check
    for check in (
        *TABLE_CHECKS,
        *ACCOUNT_CHECKS,
        *RECORD_CHECKS,
        *REGISTRY_CHECKS,
        *WAITING_CHECKS,
    )
    for spec in check.check_specs
}
WARNINGS = {
    ONE_KIND_PER_KEY,
    "values_fit_their_columns",
    *(spec.name for check in WAITING_CHECKS for spec in check.check_specs),
}
SOUND = [place for place in CHECKS if place[1] not in WARNINGS]
LATER_DRAINS = count(1_000)


@dataclass
class Parts:
    """What a check asks its resources for."""

    platform: Platform
    spark_session: SparkSession

    @property
    def gateway(self) -> Any:
        return self.platform.gateway

    @property
    def warehouse(self) -> Any:
        return self.platform.warehouse


@pytest.fixture(scope="module")
def parts(
    tmp_path_factory: pytest.TempPathFactory, postgres_url: str, spark_remote: str
) -> Iterator[Parts]:
    home = tmp_path_factory.mktemp("home")
    with fresh_platform(home, postgres_url=postgres_url, spark_remote=spark_remote) as platform:
        events = generate(7, batches=60)
        with platform.intake() as intake:
            _drain(platform, intake, events[:50])
            _pause_everything(platform)
            _drain(platform, intake, events[50:])
            yield Parts(platform, intake.session())


def _drain(platform: Platform, intake: Intake, events: Sequence[Event]) -> None:
    platform.import_events(events)
    while intake.drain() is not None:
        pass


def _pause_everything(platform: Platform) -> None:
    with platform.gateway.transaction() as tx:
        known = tx.lineages.page(LineageFilter(), limit=1_000)
        tx.pauses.add([lineage.place for lineage in known], PauseReason.OPERATOR)
        tx.commit()


def result(parts: Parts, asset: str, name: str) -> AssetCheckResult:
    check = CHECKS[asset, name]
    asked = {"records", "spark", "lake"} & check.required_resource_keys
    found = check(**dict.fromkeys(asked, parts))
    assert isinstance(found, AssetCheckResult)
    return found


def tamper(parts: Parts, table: str, **changes: Any) -> None:
    """Add a row like the first one, as a writer does that keeps to no rule."""
    _tamper_together(parts, table, [changes])


def _tamper_together(parts: Parts, table: str, changes: Sequence[dict[str, Any]]) -> None:
    drain_id, location = next(LATER_DRAINS), parts.warehouse.location(table)
    (row,) = DeltaTable(location).to_pyarrow_table().slice(0, 1).to_pylist()
    rows = [row | changed for changed in changes]
    contract, name = TABLES[table], f"tampered-{drain_id}"
    told = pa.Table.from_pylist(rows, contract.file_schema)
    file = write_data_file(location, contract, told, day=row["day"], name=name)
    parts.warehouse.add(table, drain_id, [file])


@pytest.mark.parametrize(("asset", "name"), SOUND)
def test_a_check_holds_on_what_intake_wrote(parts: Parts, asset: str, name: str) -> None:
    assert result(parts, asset, name).passed, result(parts, asset, name).description


def test_what_waits_is_looked_for_in_portions(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = result(parts, "staged_rows", "everything_that_waits_is_there").metadata
    assert whole["rows that wait"] != IntMetadataValue(0)
    monkeypatch.setattr(records, "SUMS_AT_ONCE", 1)
    again = result(parts, "staged_rows", "everything_that_waits_is_there")
    assert (again.passed, again.metadata) == (True, whole)


@pytest.mark.parametrize(
    ("asset", "name", "changes"),
    [
        ("row_changes", "one_row_per_dedup_key_in_table", {}),
        ("metric_datapoint", "one_value_per_moment_in_table", {}),
        ("metric_datapoint", "lineage_rule", {"source_rule": None}),
        ("state_datapoint", "owner_rule", {"owner_kind": "planet"}),
        ("metric_datapoint", "foreign_keys", {"component_id": "nobody's"}),
        ("state_datapoint", "foreign_keys", {"key": "nobody's"}),
        ("batch_ledger", "ledger_balance_in_table", {"rows_new": 4_711}),
        ("rejected_batches", "every_rejection_is_in_the_ledger", {"position": 4_711}),
        ("rejected_batches", "every_rejection_has_a_life", {"rejection_id": "nobody's"}),
        ("key_conflicts", "every_conflict_is_in_the_ledger", {"kind": "row", "arrivals": 4_711}),
        ("staged_rows", "everything_that_waits_is_there", {}),
        ("schema_observations", "columns_hash_to_their_schema", {"columns": "[]"}),
    ],
)
def test_a_check_notices_a_row_of_another_writer(
    parts: Parts, asset: str, name: str, changes: dict[str, Any]
) -> None:
    tamper(parts, asset, **changes)
    found = result(parts, asset, name)
    assert not found.passed
    assert {"what to do", "offending rows"} <= found.metadata.keys()


def test_a_key_with_values_of_two_kinds_is_listed(parts: Parts) -> None:
    key = "stream.two_kinds"
    tamper(parts, "metric_datapoint", key=key, value=1.5)
    tamper(parts, "state_datapoint", key=key, value=None)
    assert key not in _listed(parts)
    tamper(parts, "state_datapoint", key=key, value="on")
    assert key in _listed(parts)


def _listed(parts: Parts) -> list[str]:
    found = result(parts, "state_datapoint", ONE_KIND_PER_KEY)
    listed = found.metadata.get("offending rows")
    return (
        [str(r.data["key"]) for r in listed.records]
        if isinstance(listed, TableMetadataValue)
        else []
    )


MANY = 2 * SAMPLE_ROWS + 1


@pytest.mark.parametrize(
    ("asset", "name", "counted"),
    [
        ("schema_observations", "columns_hash_to_their_schema", "wrong"),
        ("quarantined_datapoints", "values_fit_their_columns", "keys"),
        ("state_datapoint", ONE_KIND_PER_KEY, "keys of two kinds"),
        ("metric_datapoint", "foreign_keys", "unknown"),
    ],
)
def test_a_check_counts_all_that_is_wrong_and_brings_few_of_it_here(
    parts: Parts, monkeypatch: pytest.MonkeyPatch, asset: str, name: str, counted: str
) -> None:
    monkeypatch.setattr(registries, "PORTION", SAMPLE_ROWS)
    held = _rows_held(monkeypatch)
    before = _count(result(parts, asset, name), counted)

    _tamper_with_many(parts)

    found = result(parts, asset, name)
    assert _count(found, counted) - before == MANY
    listed = found.metadata["offending rows"]
    assert isinstance(listed, TableMetadataValue)
    assert len(listed.records) == SAMPLE_ROWS
    assert all(rows <= SAMPLE_ROWS for rows in held)
    cells = [value for record in listed.records for value in record.data.values()]
    assert all(len(cell) <= LONGEST_CELL + 1 for cell in cells if isinstance(cell, str))


def _rows_held(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows Spark hands over at once, from now on."""
    held: list[int] = []
    hand_over = DataFrame.toArrow

    def noting(frame: DataFrame) -> pa.Table:
        rows = hand_over(frame)
        held.append(rows.num_rows)
        return rows

    monkeypatch.setattr(DataFrame, "toArrow", noting)
    return held


def _tamper_with_many(parts: Parts) -> None:
    mark = uuid4().hex
    long = [{"value": f"{n:08}" + "x" * 2_000} for n in range(MANY)]
    keys = [{"key": f"many.{mark}{n}"} for n in range(MANY)]
    hashes = [{"schema_hash": f"{mark}{n}", "columns": "[]"} for n in range(MANY)]
    both = [key | value for key, value in zip(keys, long, strict=True)]
    _tamper_together(parts, "schema_observations", hashes)
    _tamper_together(parts, "quarantined_datapoints", both)
    _tamper_together(parts, "state_datapoint", both)
    _tamper_together(parts, "metric_datapoint", [key | {"value": 1.5} for key in keys])


def _count(found: AssetCheckResult, counted: str) -> int:
    count = found.metadata[counted].value
    assert isinstance(count, int)
    return count
