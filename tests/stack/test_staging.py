"""What a paused lineage sends is staged, and released as if it had never been paused."""

from collections.abc import Callable, Sequence
from datetime import date
from typing import Any

import pytest

from ilyama_assets.drains.errors import ReleaseFailed
from ilyama_assets.drains.protocol import Intake
from ilyama_protocol.fingerprint import Affinity, SchemaColumn
from ilyama_protocol.intake.lineage_rulings import PauseReason
from ilyama_resources.faults import CRASH_STATUS
from ilyama_resources.postgres.lineages import LineageEntry, LineagePlace
from ilyama_service import lineages
from tests.oracle import Event, Oracle
from tests.platform import Platform
from tests.streams import generate
from tests.tables import assert_warehouse_equals_oracle, expected_tables
from tests.unit.intake.traffic import DEVICE_ID, NOW, TABLE, TOPIC, batch, change

DAY = date(2026, 4, 28)
LINEAGE = LineagePlace(DEVICE_ID, TABLE)

RELEASE_POINTS = [
    "open.before",
    "open.after",
    "decide.before",
    "decide.after",
    "seal.before",
    "seal.after",
    *(f"commit.{'before' if table % 2 else 'after'}:{table}" for table in range(1, 5)),
    "close.before",
    "close.after",
]


def _lineages(events: Sequence[Event]) -> set[tuple[str, str]]:
    lines = expected_tables(events)["batch_ledger"]
    return {(line["device_id"], line["source_table"]) for line in lines if line["rows_new"]}


def _pause(platform: Platform, lineages: set[tuple[str, str]], oracle: Oracle) -> None:
    with platform.gateway.transaction() as tx:
        tx.pauses.add(lineages, PauseReason.OPERATOR)
        tx.commit()
    for lineage in lineages:
        oracle.staging.pause(lineage)


def _resume(platform: Platform, lineages: set[tuple[str, str]], oracle: Oracle) -> None:
    with platform.gateway.transaction() as tx:
        tx.pauses.clear(lineages, PauseReason.OPERATOR)
        tx.commit()
    for lineage in lineages:
        oracle.staging.resume(lineage)


def _assert_equals(platform: Platform, oracle: Oracle) -> None:
    assert_warehouse_equals_oracle(platform.settings.warehouse, oracle.tables())


def _feed(oracle: Oracle, events: Sequence[Event]) -> None:
    for event in events:
        oracle.feed(event)


def test_rows_of_paused_lineages_are_staged_and_released_as_decided(platform: Platform) -> None:
    """Repetitions, conflicts and late rows are told among staged rows as among others."""
    events, oracle = generate(61, batches=60), Oracle()
    lineages = _lineages(events)
    platform.import_events(events[:20])
    platform.only_drain()
    _feed(oracle, events[:20])
    _pause(platform, lineages, oracle)
    for part in (events[20:40], events[40:]):
        platform.import_events(part)
        platform.drain()
        _feed(oracle, part)
    _assert_equals(platform, oracle)
    with platform.gateway.transaction() as tx:
        assert tx.backlog.free().lineages == 0
    _resume(platform, lineages, oracle)
    platform.drain("--verify")
    oracle.release()
    _assert_equals(platform, oracle)
    with platform.gateway.transaction() as tx:
        assert tx.backlog.free().lineages == 0


def test_a_release_survives_a_crash_at_every_step(platform: Platform) -> None:
    events, oracle = generate(62, batches=60), Oracle()
    lineages = _lineages(events)
    _pause(platform, lineages, oracle)
    platform.import_events(events)
    platform.only_drain()
    _feed(oracle, events)
    _resume(platform, lineages, oracle)
    for point in RELEASE_POINTS:
        died = platform.try_ilyama("drain", CRASH_AT=point, ILYAMA_DRAIN_MAX_BYTES="3000")
        assert died.returncode == CRASH_STATUS, f"{point}: {died.stderr}"
    platform.drain()
    oracle.release()
    _assert_equals(platform, oracle)


def _take_in(intake: Intake) -> None:
    with intake.alone():
        while intake.drain() or intake.release(DAY):
            pass


def _events(*payloads: bytes, after: int = 0) -> list[Event]:
    return [Event(TOPIC, payload, NOW + (after + i) * 10**6) for i, payload in enumerate(payloads)]


def _do(platform: Platform, deed: Callable[..., LineageEntry], **more: Any) -> LineageEntry:
    with platform.gateway.transaction() as tx:
        done = deed(tx, LINEAGE, actor="ann", **more)
        tx.commit()
    return done


def _committed(platform: Platform) -> list[int]:
    return sorted(row["commit_seq"] for row in platform.rows("row_changes"))


def test_a_full_backlog_pauses_its_lineage_until_it_has_drained(platform: Platform) -> None:
    payloads = [batch(*(change(n * 5 + i) for i in range(5)), number=n) for n in range(4)]
    with platform.intake(staged_backlog_rows=9) as intake:
        platform.import_events(_events(payloads[0]))
        _take_in(intake)
        _do(platform, lineages.pause, note=None)
        platform.import_events(_events(*payloads[1:3], after=1))
        _take_in(intake)
        with platform.gateway.transaction() as tx:
            found = tx.lineages.find(*LINEAGE)
        assert (found.pauses, found.staged_rows) == (["backpressure", "operator"], 10)
        _do(platform, lineages.resume)
        platform.import_events(_events(payloads[3], after=3))
        _take_in(intake)
    assert _committed(platform) == [*range(20)]
    with platform.gateway.transaction() as tx:
        assert tx.lineages.find(*LINEAGE)[2:] == ([], None, 0, 0)


def test_a_circuit_that_opened_is_closed_by_an_operator_and_its_rows_are_tried_again(
    platform: Platform,
) -> None:
    schema = (SchemaColumn("id", Affinity.INTEGER, pk_ordinal=1, not_null=True),)
    misfits = batch(*(change(n, pk="x", row={"id": "x"}) for n in range(5)), schema=schema)
    good = batch(change(5, row={"id": 1}), number=1, schema=schema)
    with platform.intake() as intake:
        platform.import_events(_events(misfits))
        _take_in(intake)
        platform.import_events(_events(good, after=1))
        _take_in(intake)
        assert _committed(platform) == []
        with platform.gateway.transaction() as tx:
            assert tx.lineages.find(*LINEAGE).pauses == ["circuit_open"]
        _do(platform, lineages.reset_materialization)
        _take_in(intake)
    assert _committed(platform) == [5]
    with platform.gateway.transaction() as tx:
        found = tx.lineages.find(*LINEAGE)
    assert (found.pauses, found.staged_rows) == ([], 5)
    origins = [(line["origin"], line["outcome"]) for line in platform.rows("batch_ledger")]
    assert sorted(origins) == [
        ("live", "staged"),
        ("live", "staged"),
        ("staged", "accepted"),
        ("staged", "staged"),
    ]


def test_a_message_that_broke_the_engine_is_decided_anew_when_that_is_asked_for(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, broken, last = (batch(change(n, pk=n), number=n) for n in range(3))
    monkeypatch.setenv("POISON", f"error:{'0' * 11}1")
    with platform.intake() as intake:
        platform.import_events(_events(first, broken, last))
        _take_in(intake)
        assert _committed(platform) == [0, 2]
        monkeypatch.delenv("POISON")
        _take_in(intake)
        assert _committed(platform) == [0, 2]
        with platform.gateway.transaction() as tx:
            assert lineages.retry_errors(tx, actor="ann") == 1
            tx.commit()
        _take_in(intake)
    assert _committed(platform) == [0, 1, 2]
    assert len(platform.rows("raw_batches")) == 3
    moments = {row["commit_seq"]: row["received_at"] for row in platform.rows("row_changes")}
    assert moments[0] < moments[1] < moments[2]
    with platform.gateway.transaction() as tx:
        assert tx.lineages.find(*LINEAGE).staged_rows == 0


def test_a_damaged_file_of_staged_rows_stops_nothing_but_their_release(platform: Platform) -> None:
    with platform.intake() as intake:
        platform.import_events(_events(batch(change(1), number=1)))
        _take_in(intake)
        _do(platform, lineages.pause, note=None)
        platform.import_events(_events(batch(change(2), number=2), after=1))
        _take_in(intake)
        (staged,) = (platform.settings.warehouse / "staged_rows").glob("*/*.parquet")
        whole = staged.read_bytes()
        staged.write_bytes(whole[:100])
        _do(platform, lineages.resume)
        with pytest.raises(ReleaseFailed, match="1 staged rows"):
            _take_in(intake)
        platform.import_events(_events(batch(change(3), number=3), after=2))
        _take_in(intake)
        assert _committed(platform) == [1, 3]

        staged.write_bytes(whole)
        with platform.gateway.transaction() as tx:
            lineages.retry_errors(tx, actor="ann")
            tx.commit()
        _take_in(intake)
        assert _committed(platform) == [1, 2, 3]
