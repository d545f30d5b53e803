"""Gaps in the records: opened, closed in part, explained by rejections, and listed in order."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from dagster import MaterializeResult
from sqlalchemy import create_engine, event

from ilyama_assets import sequence_gaps as sequence_gaps_module
from ilyama_assets.sequence_gaps import sequence_gaps
from ilyama_protocol.intake.sequences import Island, SequenceChange, SequenceKind
from ilyama_protocol.moments import utc
from ilyama_resources.postgres import Transaction
from ilyama_resources.postgres import sequences as sequences_module
from ilyama_resources.postgres.sequences import GapFilter, GapTotal, RejectedBatch, Sequences
from tests.api_server import ApiServer
from tests.platform import Platform

NOW = 1_777_366_800_000_000
EPOCH = "019693d0-0000-7000-8000-00000000000a"


def _change(
    name: str, opened: list[Island], covered: list[Island] | None = None, era: int = 0
) -> SequenceChange:
    kind = SequenceKind.ROWS if name == EPOCH else SequenceKind.TELEMETRY
    return SequenceChange(kind, name, era, NOW, opened, covered or [])


def _listed(tx: Transaction, **wanted: str) -> list[tuple[str, str, int, int, int, int]]:
    found = tx.sequences.page(GapFilter(**wanted), after=None, limit=None)  # type: ignore[arg-type]
    return [
        (g.device_id, g.name, g.era, g.first_missing, g.last_missing, told.rejections)
        for told in found
        for g in [told.gap]
    ]


def test_numbers_that_come_close_gaps_and_split_them(platform_without_spark: Platform) -> None:
    with platform_without_spark.gateway.transaction() as tx:
        tx.sequences.advance(
            [("a", _change("t", [(3, 9)])), ("b", _change("t", [(3, 9)]))], drain_id=1
        )
        tx.sequences.advance([("a", _change("t", [(20, 20)], era=1))], drain_id=2)
        tx.sequences.advance([("a", _change("t", [(15, 16)], [(4, 4), (9, 9)]))], drain_id=3)
        assert _listed(tx, device_id="a") == [
            ("a", "t", 0, 3, 3, 0),
            ("a", "t", 0, 5, 8, 0),
            ("a", "t", 0, 15, 16, 0),
            ("a", "t", 1, 20, 20, 0),
        ]
        tx.sequences.advance([("a", _change("t", [], [(3, 16)]))], drain_id=4)
        assert _listed(tx) == [("a", "t", 1, 20, 20, 0), ("b", "t", 0, 3, 9, 0)]
        assert tx.sequences.totals() == [GapTotal("telemetry", 2, 8, 0)]


def test_of_a_journal_with_very_many_gaps_the_widest_are_listed(
    platform_without_spark: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequences_module, "MOST_GAPS", 2)
    with platform_without_spark.gateway.transaction() as tx:
        tx.sequences.advance([("a", _change(EPOCH, [(1, 1), (5, 9), (20, 29)]))], drain_id=1)
        tx.sequences.advance([("a", _change(EPOCH, [(50, 52)]))], drain_id=2)
        assert [gap[3:5] for gap in _listed(tx)] == [(5, 9), (20, 29)]
        assert tx.sequences.totals() == [GapTotal("rows", 2, 15, 4)]


def test_gaps_too_many_to_list_are_counted_without_any_that_is_listed(
    platform_without_spark: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequences_module, "MOST_GAPS", 0)
    with platform_without_spark.gateway.transaction() as tx:
        tx.sequences.advance([("a", _change(EPOCH, [(5, 9)]))], drain_id=1)
        tx.sequences.advance([("a", _change("t", [(3, 3)]))], drain_id=1)
        assert tx.sequences.totals() == [GapTotal("rows", 0, 0, 5), GapTotal("telemetry", 1, 1, 0)]


def test_however_many_gaps_close_they_are_removed_together(
    platform_without_spark: Platform,
) -> None:
    gateway, statements = platform_without_spark.gateway, list[str]()
    opened = [(n, n) for n in range(1, 2_000, 2)]
    devices = ("a", "b")
    with gateway.transaction() as tx:
        tx.sequences.advance([(d, _change("t", opened)) for d in devices], drain_id=1)
        tx.commit()
    engine = create_engine(gateway.url)
    with engine.connect() as connection:

        @event.listens_for(connection, "before_cursor_execute")
        def note(_: Any, __: Any, statement: str, *___: Any) -> None:
            statements.append(statement)

        sequences = Sequences(connection)
        sequences.advance([("a", _change("t", [], [(2, 1_900)]))], drain_id=2)
        left = sequences.page(GapFilter(), after=None, limit=None)
        connection.rollback()
    engine.dispose()

    assert len(statements) < 10
    assert [told.gap.first_missing for told in left] == [1, *range(1_901, 2_000, 2)] + [
        first for first, _ in opened
    ]


def test_the_table_of_gaps_is_written_in_portions(
    platform_without_spark: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequence_gaps_module, "PORTION", 7)
    platform = platform_without_spark
    opened = [(n, n) for n in range(1, 101, 2)]
    with platform.gateway.transaction() as tx:
        tx.sequences.advance([("a", _change("t", opened))], drain_id=1)
        tx.commit()
    written: list[object] = []
    for _ in range(2):
        done = sequence_gaps(_Has(gateway=platform.gateway), _Has(warehouse=platform.warehouse))
        assert isinstance(done, MaterializeResult)
        written.append((done.metadata or {})["dagster/row_count"])

    assert written == [50, 50]
    rows = platform.rows("sequence_gaps")
    assert sorted(row["first_missing"] for row in rows) == [first for first, _ in opened]


class _Has(SimpleNamespace):
    """A resource in a test."""


def test_a_rejection_explains_no_gap_of_another_era(platform_without_spark: Platform) -> None:
    with platform_without_spark.gateway.transaction() as tx:
        tx.sequences.advance(
            [("a", _change("t", [(3, 9)], era=era)) for era in range(3)], drain_id=1
        )
        batches = [
            RejectedBatch(
                f"r{n}", "a", "telemetry", "t", n, n, "invalid_row", "t", utc(NOW), era=era
            )
            for n, era in ((4, 0), (5, 0), (6, 2))
        ]
        tx.sequences.note_rejections(batches)
        assert [(gap[2], gap[-1]) for gap in _listed(tx)] == [(0, 2), (1, 0), (2, 1)]


def test_a_gap_names_the_rejections_that_had_its_numbers(
    api: ApiServer, shared_platform: Platform
) -> None:
    with shared_platform.gateway.transaction() as tx:
        tx.sequences.advance([("a", _change("t", [(3, 9), (12, 12)]))], drain_id=1)
        batches = [
            RejectedBatch(f"r{n}", device, "telemetry", "t", n, n, "invalid_row", "t", utc(NOW + n))
            for n, device in ((2, "a"), (4, "a"), (9, "a"), (10, "a"), (5, "b"))
        ]
        tx.sequences.note_rejections([*batches, batches[0]])
        tx.commit()

    items = api.get("/v1/gaps", limit=1)
    first = items["items"][0]
    assert (first["first_missing"], first["rejections"]) == (3, 2)
    assert (first["source_table"], first["rejection_ids"]) == ("t", ["r4", "r9"])
    rest = api.get("/v1/gaps", source_table="t", cursor=items["next_cursor"])["items"]
    assert [gap["first_missing"] for gap in rest] == [12]
    with shared_platform.gateway.transaction() as tx:
        assert tx.sequences.forget_rejections(received_before=utc(NOW) + timedelta(days=1)) == 5
