"""Compaction makes few files of many, and readers and drains notice nothing else."""

from collections import Counter
from collections.abc import Iterator
from datetime import date

import pytest

from ilyama_assets.drains.protocol import Intake
from ilyama_assets.tables import INTAKE_TABLES
from ilyama_assets.transforms.compacted import compact_day, days_worth_compacting
from ilyama_resources.delta.data_files import TableContract
from ilyama_resources.delta.warehouse import Warehouse
from tests.platform import Platform
from tests.spark.arrivals import Payloads, drained, drained_telemetry
from tests.unit.intake.traffic import batch, change, columns, sample, telemetry

DEVICES = ("acme/one", "acme/two")
DRAINS = 4
READ_BY_SPARK = ("row_changes", "state_datapoint")
SCHEMA = columns(v="REAL", w="TEXT")


def _segment(number: int) -> Payloads:
    """New rows, rows of the segment before, a conflict, a misfit and a rejection."""
    rows = [
        change(number, pk=number % 3, op="insert", row={"v": number / 7, "w": "é\0\n"}),
        change(number + 1, pk="a/b", row={"v": None, "w": number}),
    ]
    quarrel = change(1, pk=1, op="insert", row={"v": number})
    good, other = batch(*rows, schema=SCHEMA), batch(quarrel, schema=SCHEMA)
    return [(device_id, payload) for device_id in DEVICES for payload in (good, other, b"{")]


def _samples(number: int) -> Payloads:
    taken = telemetry(sample(number), seq=number, table="samples")
    return [(device_id, taken) for device_id in DEVICES]


@pytest.fixture
def intake(platform: Platform) -> Iterator[Intake]:
    with platform.intake(drain_max_bytes=1) as parts:
        yield parts


def _contents(platform: Platform) -> dict[str, Counter[str]]:
    return {
        contract.name: Counter(repr(sorted(row.items())) for row in platform.rows(contract.name))
        for contract in INTAKE_TABLES
    }


def _compact(intake: Intake) -> dict[str, tuple[int, int]]:
    """Compact everything that has more than one file; the files of each table before and after."""
    sizes = {}
    for contract in INTAKE_TABLES:
        before = len(intake.warehouse.files(contract.name))
        for day in days_worth_compacting(intake.warehouse, contract, most_files=1):
            compact_day(
                intake.session(),
                intake.warehouse,
                contract,
                day,
                commit_lock=intake.gateway.lock(f"table {contract.name}"),
            )
        sizes[contract.name] = (before, len(intake.warehouse.files(contract.name)))
    return sizes


def test_compaction_changes_files_and_nothing_else(platform: Platform, intake: Intake) -> None:
    reports = drained(intake, *(_segment(number) for number in range(DRAINS)))
    assert len(reports) == DRAINS
    drained_telemetry(intake, *(_samples(number) for number in range(DRAINS)))
    before = _contents(platform)
    recorded, counted = _recorded(intake.warehouse), _counted_by_spark(intake)

    sizes = _compact(intake)

    assert _contents(platform) == before
    assert _counted_by_spark(intake) == counted
    assert _recorded(Warehouse(intake.warehouse.root, intake.warehouse.identity)) == recorded
    for table, (many, few) in sizes.items():
        days = {row["day"] for row in platform.rows(table)}
        assert few == len(days), table
        assert many >= few
    assert sizes["row_changes"][0] >= DRAINS
    empty = [table for table in before if not before[table]]
    assert empty == ["staged_rows"]


def test_drains_go_on_after_compaction(platform: Platform, intake: Intake) -> None:
    drained(intake, _segment(0), _segment(1))
    _compact(intake)
    compacted = _contents(platform)

    (again,) = drained(intake, _segment(1))
    (new,) = drained(intake, _segment(7))

    grown = _contents(platform)
    assert all(compacted[table] <= grown[table] for table in compacted)
    assert not [file for file in again.seal.files if file.table == "row_changes"]
    assert new.integrity.balanced
    keys = [
        tuple(
            row[name]
            for name in (
                "device_id",
                "source_table",
                "journal_epoch",
                "source_pk_hash",
                "commit_seq",
            )
        )
        for row in platform.rows("row_changes")
    ]
    assert len(keys) == len(set(keys))


def test_a_drain_that_was_compacted_cannot_be_committed_again(
    platform: Platform, intake: Intake
) -> None:
    reports = drained(intake, _segment(0), _segment(1))
    _compact(intake)
    before = _contents(platform)

    for report in reports:
        for file in report.seal.files:
            intake.warehouse.add(file.table, report.drain.drain_id, [file])

    assert _contents(platform) == before


@pytest.mark.parametrize(("most_files", "worth"), [(1, True), (2, False)])
def test_a_day_is_worth_compacting_when_it_has_too_many_small_files(
    intake: Intake, most_files: int, worth: bool
) -> None:
    drained(intake, [_segment(0)[0]], [_segment(2)[0]])

    days = days_worth_compacting(intake.warehouse, _row_changes(), most_files=most_files)

    assert days == ([date(2026, 4, 28)] if worth else [])


def _row_changes() -> TableContract:
    return next(contract for contract in INTAKE_TABLES if contract.name == "row_changes")


def _recorded(warehouse: Warehouse) -> dict[str, int]:
    return {contract.name: warehouse.recorded(contract.name) for contract in INTAKE_TABLES}


def _counted_by_spark(intake: Intake) -> dict[str, int]:
    locations = {table: str(intake.warehouse.location(table)) for table in READ_BY_SPARK}
    read = intake.session().read.format("delta")
    return {table: read.load(location).count() for table, location in locations.items()}
