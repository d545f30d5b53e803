"""Key conflicts are listed by day and page, each once with all its arrivals."""

import json
from datetime import date, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ilyama_protocol.intake.conflicts import ConflictKind
from ilyama_resources.delta.key_conflicts import (
    MOST_FILES,
    MOST_SHOWN,
    RECENT_DAYS,
    ConflictFilter,
    ListedConflict,
    conflicts_page,
    newest_conflicts,
    recent_arrivals,
)
from ilyama_resources.delta.warehouse import Warehouse
from ilyama_service.cli.app import app
from tests.conflict_records import conflict, list_conflicts

DAY = date(2026, 4, 28)
NEXT = DAY + timedelta(days=1)
OTHER_DEVICE = "acme/dev-2"


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    """Two days; on the first the same conflicts came in two drains."""
    made = Warehouse(tmp_path / "warehouse", "test")
    list_conflicts(made, {conflict(n): 1 for n in range(9)}, drain_id=1, day=DAY)
    list_conflicts(made, {conflict(n): 10 for n in range(0, 9, 2)}, drain_id=2, day=DAY)
    sampled = conflict(1, kind=ConflictKind.DATAPOINT)
    list_conflicts(made, {sampled: 3}, drain_id=3, day=NEXT, device_id=OTHER_DEVICE)
    return made


def _everything(root: Path, *, limit: int) -> list[ListedConflict]:
    found: list[ListedConflict] = []
    while page := conflicts_page(
        root, ConflictFilter(), after=found[-1].place if found else None, limit=limit
    ).conflicts:
        assert len(page) <= limit
        found += page
    return found


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_pages_of_any_length_show_every_conflict_once_with_all_arrivals(
    warehouse: Warehouse, limit: int
) -> None:
    newest, *rest = _everything(warehouse.root, limit=limit)

    assert (newest.place.day, newest.place.device_id, newest.arrivals) == (NEXT, OTHER_DEVICE, 3)
    assert [(told.place.key, told.arrivals) for told in rest] == [
        (conflict(n).key, 1 + 10 * (n % 2 == 0)) for n in range(9)
    ]


def test_two_contents_under_one_key_are_two_conflicts(tmp_path: Path) -> None:
    longer = {conflict(1, "x" * MOST_SHOWN + end): 1 for end in "ab"}
    list_conflicts(Warehouse(tmp_path, "test"), longer, drain_id=1, day=DAY)

    found = _everything(tmp_path, limit=1)

    assert [told.other for told in found] == ["x" * MOST_SHOWN] * 2
    assert len({told.place.digest for told in found}) == 2


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        (ConflictFilter(device_id=OTHER_DEVICE), 1),
        (ConflictFilter(device_id="acme/dev-3"), 0),
        (ConflictFilter(source_table="pumps"), 10),
        (ConflictFilter(source_table="Pumps"), 0),
        (ConflictFilter(kind=ConflictKind.ROW), 9),
        (ConflictFilter(kind=ConflictKind.TELEMETRY_BATCH), 0),
        (ConflictFilter(day=DAY), 9),
        (ConflictFilter(device_id=OTHER_DEVICE, day=DAY), 0),
    ],
)
def test_conflicts_are_narrowed(warehouse: Warehouse, wanted: ConflictFilter, count: int) -> None:
    assert len(conflicts_page(warehouse.root, wanted, after=None, limit=100).conflicts) == count


def test_a_full_page_of_the_newest_day_reads_no_older_file(warehouse: Warehouse) -> None:
    for file in warehouse.root.glob(f"*/day={DAY}/*.parquet"):
        file.unlink()

    found = conflicts_page(warehouse.root, ConflictFilter(), after=None, limit=1)

    (newest,) = found.conflicts
    assert found.unreadable == []
    assert newest.place.day == NEXT


def test_files_of_other_devices_are_not_read(warehouse: Warehouse) -> None:
    for file in warehouse.root.glob(f"*/day={NEXT}/*.parquet"):
        file.unlink()

    wanted = ConflictFilter(device_id="acme/dev-1")

    found = conflicts_page(warehouse.root, wanted, after=None, limit=100)
    assert (len(found.conflicts), found.unreadable) == (9, [])


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_page_reads_only_files_of_the_devices_that_it_shows(tmp_path: Path, limit: int) -> None:
    warehouse = Warehouse(tmp_path, "test")
    for number in range(6):
        told = {conflict(number): 1}
        for drain_id in (2 * number + 1, 2 * number + 2):
            device = f"dev-{5 - number}"
            list_conflicts(warehouse, told, drain_id=drain_id, day=DAY, device_id=device)
    whole = _everything(tmp_path, limit=100)
    assert [told.place.device_id for told in whole] == [f"dev-{n}" for n in range(6)]
    for of_first_or_last in (1, 2, 11, 12):
        for file in tmp_path.glob(f"*/day={DAY}/drain-{of_first_or_last}[.-]*"):
            file.unlink()

    found = conflicts_page(tmp_path, ConflictFilter(), after=whole[1].place, limit=limit)

    assert found == (whole[2 : 2 + limit], [])


def _break_files_of(warehouse: Warehouse, day: date) -> list[str]:
    """Take one file of a day away and tear the others; tell their names."""
    files = sorted(warehouse.root.glob(f"key_conflicts/day={day}/*.parquet"))
    files[0].unlink()
    for file in files[1:]:
        file.write_bytes(file.read_bytes()[:-40])
    return [str(file.relative_to(warehouse.root)) for file in files]


def test_files_that_cannot_be_read_are_named_and_the_others_read(warehouse: Warehouse) -> None:
    broken = _break_files_of(warehouse, DAY)

    found = conflicts_page(warehouse.root, ConflictFilter(), after=None, limit=100)

    assert len(broken) == 2
    assert [told.place.day for told in found.conflicts] == [NEXT]
    assert sorted(found.unreadable) == broken
    arrivals = recent_arrivals(warehouse.root, today=DAY)
    assert (arrivals.arrivals, sorted(arrivals.unreadable)) == (0, broken)
    answer = CliRunner().invoke(
        app, ["conflicts", "--json"], env={"ILYAMA_HOME": str(warehouse.root.parent)}
    )
    assert answer.exit_code == 0
    assert all(f"{file} cannot be read." in answer.stderr for file in broken)
    assert len(answer.stdout.splitlines()) == 1


def test_a_list_whose_log_cannot_be_read_is_named(warehouse: Warehouse) -> None:
    for file in warehouse.root.glob("key_conflicts/_delta_log/*"):
        file.write_text("{")

    assert recent_arrivals(warehouse.root, today=DAY) == (None, ["key_conflicts"])
    found = conflicts_page(warehouse.root, ConflictFilter(), after=None, limit=1)
    assert found == ([], ["key_conflicts"])


@pytest.mark.parametrize(
    ("later", "arrivals"),
    [(0, 9 + 50), (1, 9 + 50 + 3), (RECENT_DAYS - 1, 9 + 50 + 3), (RECENT_DAYS, 3), (99, 0)],
)
def test_arrivals_of_the_last_days_are_summed(
    warehouse: Warehouse, later: int, arrivals: int
) -> None:
    today = DAY + timedelta(days=later)
    assert recent_arrivals(warehouse.root, today=today) == (arrivals, [])


def test_the_newest_conflicts_are_those_of_the_newest_drains(warehouse: Warehouse) -> None:
    newest, *rest = newest_conflicts(warehouse.root, limit=6).conflicts

    assert (newest.place.day, newest.arrivals) == (NEXT, 3)
    assert [told.place.key for told in rest] == [conflict(n).key for n in range(0, 9, 2)]
    every = newest_conflicts(warehouse.root, limit=100).conflicts
    assert sorted(told.place for told in every) == sorted(
        told.place for told in _everything(warehouse.root, limit=100)
    )
    assert {told.arrivals for told in every} == {1, 3, 11}


def test_of_very_many_files_few_are_read_for_the_newest_conflicts(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path, "test")
    for drain_id in range(1, MOST_FILES + 4):
        list_conflicts(warehouse, {conflict(1): 1}, drain_id=drain_id, day=DAY)

    (newest,) = newest_conflicts(tmp_path, limit=2).conflicts

    assert newest.arrivals == MOST_FILES


def test_before_the_first_drain_there_is_no_conflict(tmp_path: Path) -> None:
    assert conflicts_page(tmp_path, ConflictFilter(), after=None, limit=1) == ([], [])
    assert newest_conflicts(tmp_path, limit=1) == ([], [])
    assert recent_arrivals(tmp_path, today=DAY) == (0, [])


def _told(home: Path, *words: str) -> str:
    answer = CliRunner().invoke(
        app, ["conflicts", *words], env={"ILYAMA_HOME": str(home), "COLUMNS": "200"}
    )
    assert answer.exit_code == 0, answer.output
    return answer.output


def test_the_command_lists_conflicts(warehouse: Warehouse) -> None:
    home = warehouse.root.parent

    lines = _told(home, "--json", "--limit", "2").splitlines()
    (only,) = map(json.loads, _told(home, "--kind", "datapoint", "--json").splitlines())

    assert [json.loads(line)["day"] for line in lines] == [str(NEXT), str(DAY)]
    assert (only["device_id"], only["first"], only["other"]) == (OTHER_DEVICE, "a", "b")
    assert "acme/dev-2" in _told(home, "--device", OTHER_DEVICE, "--table", "pumps")
    of_day = _told(home, "--day", str(NEXT), "--json").splitlines()
    assert [json.loads(line)["day"] for line in of_day] == [str(NEXT)]
    assert _told(home, "--device", "nobody").startswith("No key has come with other content.")


def test_a_terminal_obeys_no_word_of_a_device_in_a_conflict(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "warehouse", "test")
    loud = conflict(1)._replace(source_table="[red]\x1b[2J")
    list_conflicts(warehouse, {loud: 1}, drain_id=1, day=DAY)

    told = _told(tmp_path)

    assert "\x1b[2J" not in told
    assert r"[red]\x1b[2J" in told
