"""The judge of a run finds everything that is not as it was published, and nothing else."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pytest

from ilyama_assets.tables import BATCH_LEDGER, ROW_CHANGES
from ilyama_resources.settings import Settings
from ilyama_service.simulator.expectations import Expectations
from ilyama_service.simulator.fleet import Fleet
from ilyama_service.simulator.message_comparison import LEDGER_COLUMNS, compare_messages
from ilyama_service.simulator.messages import SimulatedMessage
from ilyama_service.simulator.plan import FleetPlan, clock_start_ms
from ilyama_service.simulator.record import RecordMissing, RunRecord, find_record, read_lines
from ilyama_service.simulator.reports import MessageFindings, RowFindings, ValueFindings
from ilyama_service.simulator.row_comparison import ROW_COLUMNS, StoredRows, compare_rows
from ilyama_service.simulator.value_comparison import ServedValues, ValueComparison
from tests.memory_platform import MemoryPlatform
from tests.oracle import Event
from tests.tables import Row

MESSAGES = 300
PLAN = FleetPlan(
    seed="3", clock_start_ms=clock_start_ms(seeded=True), devices=4, misbehave=0.5, probe_every=50
)


class Judged:
    """A run that the platform in memory has taken, to be tampered with."""

    def __init__(self, expected: Expectations, platform: MemoryPlatform) -> None:
        self.expected = expected
        self.ledger: list[Row] = [dict(line) for line in platform.tables["batch_ledger"]]
        self.changes: list[Row] = [dict(row) for row in platform.tables["row_changes"]]
        self.values = {
            (v["owner_id"], v["key"], v["instance"]): (
                v["value_double"] if v["kind"] == "metric" else v["value_text"]
            )
            for v in platform.current_values()
        }

    def messages(self) -> MessageFindings:
        ledger = _batches(self.ledger, BATCH_LEDGER.schema, LEDGER_COLUMNS)
        return compare_messages(self.expected, ledger)[0]

    def rows(self) -> RowFindings:
        return compare_rows(self.expected, self._stored())[0]

    def served(self) -> ValueFindings:
        stored = self._stored()
        comparison = ValueComparison(self._look_up, stored.texts)
        newest = self.expected.newest_rows()
        return comparison.compare(newest, left_out=stored.shared_devices)[0]

    def _stored(self) -> StoredRows:
        wanted = {row.content_key for row in self.expected.newest_rows() if row.content_key}
        stored = StoredRows(self.expected, wanted=wanted)
        stored.scan(_batches(self.changes, ROW_CHANGES.schema, ROW_COLUMNS))
        return stored

    def _look_up(self, device_ids: Collection[str]) -> ServedValues:
        return ServedValues({n: v for n, v in self.values.items() if n[0] in device_ids}, set())


def _batches(rows: list[Row], schema: pa.Schema, columns: Collection[str]) -> list[pa.RecordBatch]:
    chosen = pa.schema([schema.field(name) for name in columns])
    plain = [{name: row[name] for name in columns} for row in rows]
    return list(pa.Table.from_pylist(plain, chosen).to_batches(max_chunksize=300))


def taken(arrived: list[SimulatedMessage]) -> MemoryPlatform:
    platform = MemoryPlatform()
    events = [Event(m.sent.topic, m.payload, 10**15 + n) for n, m in enumerate(arrived)]
    for start in range(0, len(events), 150):
        platform.drain(events[start : start + 150])
    return platform


@pytest.fixture(scope="module")
def platform(published: list[SimulatedMessage]) -> MemoryPlatform:
    return taken(published)


@pytest.fixture(scope="module")
def published() -> list[SimulatedMessage]:
    return list(islice(Fleet(PLAN).messages(), MESSAGES))


def recorded(home: Path, messages: list[SimulatedMessage], acknowledged: list[int]) -> Path:
    settings = Settings(home=home)
    record = RunRecord.begin(settings, PLAN, seeded=True, endless=False)
    record.sent([message.sent for message in messages])
    record.acknowledged(acknowledged)
    record.close()
    return record.path


@pytest.fixture
def judged(tmp_path: Path, published: list[SimulatedMessage], platform: MemoryPlatform) -> Judged:
    path = recorded(tmp_path, published, list(range(MESSAGES)))
    return Judged(Expectations.read(path), platform)


def test_a_run_that_was_taken_is_clean(judged: Judged) -> None:
    messages, rows, values = judged.messages(), judged.rows(), judged.served()
    assert (messages.acknowledged, messages.visible) == (MESSAGES, MESSAGES)
    assert (messages.lost, messages.wrong_outcome, messages.arrived_again) == (0, 0, 0)
    assert messages.to_be_rejected > 10
    assert rows.visible == rows.expected > 1000
    assert (rows.lost, rows.doubled, rows.unexpected, rows.altered) == (0, 0, 0, 0)
    assert values.compared > 200
    assert (values.wrong, values.undecided) == (0, 0)


def test_a_delivery_that_was_repeated_on_the_way_is_no_fault(
    tmp_path: Path, published: list[SimulatedMessage]
) -> None:
    path = recorded(tmp_path, published, list(range(MESSAGES)))
    judged = Judged(Expectations.read(path), taken(published[:200] + published[150:]))
    assert judged.messages().arrived_again == 50
    assert (judged.messages().lost, judged.messages().wrong_outcome) == (0, 0)
    assert judged.rows() == RowFindings(
        expected=judged.rows().expected, visible=judged.rows().expected
    )
    assert judged.served().wrong == 0


def test_a_message_that_did_not_arrive_is_lost(
    tmp_path: Path, published: list[SimulatedMessage]
) -> None:
    gone = next(n for n, m in enumerate(published) if m.sent.behaviour == "fresh")
    path = recorded(tmp_path, published, list(range(MESSAGES)))
    arrived = taken([m for n, m in enumerate(published) if n != gone])
    judged = Judged(Expectations.read(path), arrived)
    assert judged.messages().lost == 1
    assert judged.rows().lost > 0


def test_a_redelivery_that_did_not_arrive_is_lost_too(
    tmp_path: Path, published: list[SimulatedMessage]
) -> None:
    gone = next(n for n, m in enumerate(published) if m.sent.behaviour == "redelivery")
    path = recorded(tmp_path, published, list(range(MESSAGES)))
    arrived = taken([m for n, m in enumerate(published) if n != gone])
    judged = Judged(Expectations.read(path), arrived)
    assert judged.messages().lost == 1


@pytest.mark.parametrize("arrives", [True, False], ids=["that arrived", "that did not arrive"])
def test_a_message_without_acknowledgement_is_no_fault(
    tmp_path: Path, published: list[SimulatedMessage], arrives: bool
) -> None:
    missing = set(range(MESSAGES - 20, MESSAGES))
    path = recorded(tmp_path, published, sorted(set(range(MESSAGES)) - missing))
    arrived = published if arrives else published[: MESSAGES - 20]
    judged = Judged(Expectations.read(path), taken(arrived))
    messages, rows = judged.messages(), judged.rows()
    assert messages.acknowledged == MESSAGES - 20
    assert (messages.lost, messages.wrong_outcome) == (0, 0)
    assert (rows.lost, rows.doubled, rows.unexpected, rows.altered) == (0, 0, 0, 0)
    assert judged.served().wrong == 0


def test_a_row_that_is_gone_is_lost(judged: Judged) -> None:
    del judged.changes[7]
    assert judged.rows().lost == 1


def test_a_row_that_is_there_twice_is_doubled(judged: Judged) -> None:
    judged.changes.append(judged.changes[7])
    assert judged.rows().doubled == 1


@pytest.mark.parametrize(
    "other", [{"commit_seq": 99_999}, {"source_pk_hash": "0" * 64}, {"source_table": "valves"}]
)
def test_a_row_that_was_never_published_is_unexpected(judged: Judged, other: Row) -> None:
    judged.changes.append(judged.changes[7] | other)
    assert judged.rows().unexpected == 1


def test_a_row_with_other_content_is_altered(judged: Judged) -> None:
    judged.changes[7] |= {"row": '{"id":1}', "op": "update"}
    assert judged.rows().altered == 1


@pytest.mark.parametrize(
    "other", [{"outcome": "staged", "code": None}, {"code": "below_floor"}, {"rows_conflict": 9}]
)
def test_another_end_than_expected_is_noticed(judged: Judged, other: Row) -> None:
    place = next(n for n, line in enumerate(judged.ledger) if line["outcome"] == "rejected")
    judged.ledger[place] |= other
    assert judged.messages().wrong_outcome == 1


def test_a_ledger_line_of_another_device_is_not_the_message(judged: Judged) -> None:
    other = {"acme/sim-0001": "acme/sim-0002"}
    place = next(n for n, line in enumerate(judged.ledger) if line["device_id"] in other)
    judged.ledger[place] |= {"device_id": "acme/sim-0002"}
    assert judged.messages().lost == 1


@pytest.mark.parametrize("key", ["readings.value", "events.__deleted", "probe.mark"])
def test_a_wrong_or_missing_current_value_is_noticed(judged: Judged, key: str) -> None:
    first, *_ = (name for name in judged.values if name[1] == key)
    judged.values[first] = "other"
    assert judged.served().wrong == 1
    del judged.values[first]
    assert judged.served().wrong == 1


def test_devices_that_sent_something_else_since_are_left_out_of_current_values(
    judged: Judged,
) -> None:
    device = judged.changes[7]["device_id"]
    later = {"journal_epoch": "another", "received_at": 2 * 10**15}
    judged.changes.append(judged.changes[7] | later)
    assert judged.rows().unexpected == 0
    assert judged.served().undecided > 0
    assert device in judged.expected.device_ids


def test_a_line_that_was_cut_short_is_left_out(
    tmp_path: Path, published: list[SimulatedMessage]
) -> None:
    path = recorded(tmp_path, published, [0, 1])
    whole = len(list(read_lines(path)))
    path.write_bytes(path.read_bytes()[:-3])
    assert len(list(read_lines(path))) == whole - 1


def test_the_newest_run_is_found_and_an_unknown_one_is_not(
    tmp_path: Path, published: list[SimulatedMessage]
) -> None:
    settings = Settings(home=tmp_path)
    with pytest.raises(RecordMissing, match="`ilyama simulate` makes one"):
        find_record(settings, None)
    recorded(tmp_path, published[:1], [])
    second = recorded(tmp_path, published[:1], [])
    assert find_record(settings, None) == second
    assert find_record(settings, second.stem) == second
    with pytest.raises(RecordMissing, match="no record of a run 'x'"):
        find_record(settings, "x")


def test_an_endless_fleet_keeps_its_last_records_only(
    tmp_path: Path, published: list[SimulatedMessage]
) -> None:
    settings = Settings(home=tmp_path)
    kept = recorded(tmp_path, published[:1], [])
    for _ in range(6):
        RunRecord.begin(settings, PLAN, seeded=False, endless=True).close()
    records = sorted((tmp_path / "simulator").iterdir())
    assert len(records) == 4
    assert kept in records
