"""The ledger of one segment: its lines alone, summed by device and table, and balanced."""

from datetime import date
from pathlib import Path

import msgspec
import pytest

from ilyama_protocol.intake.outcomes import Message, Origin
from ilyama_resources.delta.segment_ledger import segment_balance, segment_ledger
from ilyama_resources.delta.unreadable import Unreadable
from ilyama_resources.delta.warehouse import Warehouse
from ilyama_resources.landing.segment_ids import SegmentIds
from ilyama_resources.postgres.ledger import LedgerFilter, LedgerSum
from ilyama_resources.postgres.segments import LandedSegment
from tests.damage import files_of, tear
from tests.ledger_records import keep_ledger
from tests.unit.intake.traffic import DEVICE_ID, NOW, TABLE, batch, change, engine, message

FIRST, SECOND, THIRD = (SegmentIds(0, 0)[n] for n in range(3))
DAY = date(2026, 4, 28)
EVERYTHING = LedgerFilter()


def _message(payload: bytes, segment_id: str, position: int = 0) -> Message:
    sent = message(payload, at=NOW + position * 1_000_000, position=position)
    return msgspec.structs.replace(sent, segment_id=segment_id)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two segments in one drain, a third in another, and the first again in a replay."""
    warehouse = Warehouse(tmp_path, "test")
    rows = batch(change(1), change(2, 2))
    sent = [rows, rows, b"{", batch(change(3), number=1)]
    first = [_message(payload, FIRST, n) for n, payload in enumerate(sent)]
    second = _message(batch(change(4), number=2), SECOND, 9)
    keep_ledger(warehouse, engine(), [*first, second], drain_id=1)
    keep_ledger(warehouse, engine(), [_message(rows, THIRD)], drain_id=2)
    keep_ledger(warehouse, engine(), first, drain_id=3, origin=Origin.DAY)
    return tmp_path


def _ledger(root: Path, segment_id: str, wanted: LedgerFilter) -> list[LedgerSum]:
    unreadable = Unreadable(root)
    sums = segment_ledger(root, segment_id, wanted, unreadable)
    assert not unreadable.files
    return sums


def test_a_segment_is_summed_by_device_and_table_without_the_others(root: Path) -> None:
    sums = _ledger(root, FIRST, EVERYTHING)

    assert [(*line.place, line.messages, line.rows_received, line.rows_new) for line in sums] == [
        (DAY, DEVICE_ID, "", "rows", "rejected", 1, 0, 0),
        (DAY, DEVICE_ID, TABLE, "rows", "accepted", 2, 3, 3),
        (DAY, DEVICE_ID, TABLE, "rows", "duplicate", 1, 2, 0),
    ]
    assert [line.messages for line in _ledger(root, SECOND, EVERYTHING)] == [1]


@pytest.mark.parametrize(
    ("wanted", "messages"),
    [
        (LedgerFilter(outcome="duplicate"), 1),
        (LedgerFilter(source_table=TABLE), 3),
        (LedgerFilter(source_table=""), 1),
        (LedgerFilter(device_id="acme/dev-2"), 0),
        (LedgerFilter(day=DAY), 4),
        (LedgerFilter(day=date(2026, 4, 29)), 0),
        (LedgerFilter(kind="telemetry"), 0),
        (LedgerFilter("day"), 4),
        (LedgerFilter("rejection"), 0),
    ],
)
def test_the_sums_of_a_segment_are_narrowed(
    root: Path, wanted: LedgerFilter, messages: int
) -> None:
    assert sum(line.messages for line in _ledger(root, FIRST, wanted)) == messages


def test_files_without_lines_of_the_segment_are_not_read(root: Path) -> None:
    (file,) = root.glob("*/day=*/drain-2*.parquet")
    file.unlink()

    assert _ledger(root, FIRST, EVERYTHING)


@pytest.mark.parametrize(
    ("landed", "received", "balanced"),
    [
        pytest.param(LandedSegment(4, True), 4, True, id="whole"),
        pytest.param(LandedSegment(5, True), 5, False, id="a message is lost"),
        pytest.param(LandedSegment(4, False), 4, True, id="its drain is about to close"),
        pytest.param(None, None, True, id="forgotten"),
    ],
)
def test_a_segment_balances_with_what_it_held(
    root: Path, landed: LandedSegment | None, received: int | None, *, balanced: bool
) -> None:
    balance = segment_balance(_ledger(root, FIRST, EVERYTHING), EVERYTHING, landed)

    assert (balance.messages_received, balance.balanced) == (received, balanced)
    assert (balance.rows_received, balance.rows_new, balance.rows_duplicate) == (5, 3, 2)


def test_a_drained_segment_without_lines_does_not_balance(tmp_path: Path) -> None:
    sums = _ledger(tmp_path, FIRST, EVERYTHING)

    assert not segment_balance(sums, EVERYTHING, LandedSegment(4, True)).balanced
    assert segment_balance(sums, EVERYTHING, LandedSegment(4, False)).balanced


def test_a_part_of_a_segment_is_not_held_against_the_whole(root: Path) -> None:
    narrow = LedgerFilter(outcome="accepted")
    balance = segment_balance(_ledger(root, FIRST, narrow), narrow, LandedSegment(4, True))

    assert (balance.messages_received, balance.messages, balance.balanced) == (None, 2, True)


def test_what_can_be_read_of_a_segment_is_summed_and_the_rest_is_named(root: Path) -> None:
    keep_ledger(Warehouse(root, "test"), engine(), [_message(b"{", FIRST, 7)], drain_id=4)
    (torn,) = files_of(root, "batch_ledger", 1)
    tear(torn)
    unreadable = Unreadable(root)

    sums = segment_ledger(root, FIRST, EVERYTHING, unreadable)

    assert [(line.outcome, line.messages) for line in sums] == [("rejected", 1)]
    assert unreadable.files == [str(torn.relative_to(root))]
