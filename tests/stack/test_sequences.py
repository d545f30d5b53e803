"""Gaps in the records: opened, closed in part, explained by rejections, and listed in order."""

import random
from collections.abc import Iterable, Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from dagster import MaterializeResult
from sqlalchemy import create_engine, event, text

from ilyama_assets import sequence_gaps as sequence_gaps_module
from ilyama_assets.sequence_gaps import sequence_gaps
from ilyama_protocol.intake import sequences as told_sequences
from ilyama_protocol.intake.sequences import (
    Island,
    Numbering,
    SequenceChange,
    SequenceKind,
    changed,
    islands_of,
)
from ilyama_protocol.moments import utc
from ilyama_resources.postgres import Transaction
from ilyama_resources.postgres import sequences as sequences_module
from ilyama_resources.postgres.gaps import MOST_NEAR, GapFilter, Gaps, GapTotal
from ilyama_resources.postgres.rejections import RejectionState
from ilyama_resources.postgres.sequences import RejectedBatch, Sequences
from tests.api_server import ApiServer
from tests.platform import Platform
from tests.rejected_records import reject
from tests.unit.intake.traffic import message, sample, telemetry

NOW = 1_777_366_800_000_000
EPOCH = "019693d0-0000-7000-8000-00000000000a"


def _change(
    name: str, opened: list[Island], covered: list[Island] | None = None, era: int = 0
) -> SequenceChange:
    kind = SequenceKind.ROWS if name == EPOCH else SequenceKind.TELEMETRY
    return SequenceChange(kind, name, era, NOW, opened, covered or [])


def _listed(tx: Transaction, **wanted: str) -> list[tuple[str, str, int, int, int, int]]:
    found = tx.gaps.page(GapFilter(**wanted), after=None, limit=None)  # type: ignore[arg-type]
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
        assert tx.gaps.totals() == [GapTotal("telemetry", 2, 8, 0)]


def test_of_a_journal_with_very_many_gaps_the_widest_are_listed(
    platform_without_spark: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequences_module, "MOST_GAPS", 2)
    with platform_without_spark.gateway.transaction() as tx:
        tx.sequences.advance([("a", _change(EPOCH, [(1, 1), (5, 9), (20, 29)]))], drain_id=1)
        tx.sequences.advance([("a", _change(EPOCH, [(50, 52)]))], drain_id=2)
        assert [gap[3:5] for gap in _listed(tx)] == [(5, 9), (20, 29)]
        assert tx.gaps.totals() == [GapTotal("rows", 2, 15, 4)]


def test_gaps_too_many_to_list_are_counted_without_any_that_is_listed(
    platform_without_spark: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequences_module, "MOST_GAPS", 0)
    with platform_without_spark.gateway.transaction() as tx:
        tx.sequences.advance([("a", _change(EPOCH, [(5, 9)]))], drain_id=1)
        tx.sequences.advance([("a", _change("t", [(3, 3)]))], drain_id=1)
        assert tx.gaps.totals() == [GapTotal("rows", 0, 0, 5), GapTotal("telemetry", 1, 1, 0)]


class _Journal:
    """A journal whose numbers come in drains, as the records know it."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._span: Island | None = None
        self._drains = 0
        self.came: set[int] = set()

    def bring(self, numbers: Iterable[int]) -> None:
        numbering = Numbering(SequenceKind.ROWS, EPOCH)
        islands = islands_of(np.array(sorted(numbers)))
        self._span, told = changed(numbering, islands, self._span, at=NOW)
        self._drains += 1
        self._tx.sequences.advance([("a", told)] if told else [], drain_id=self._drains)
        self.came |= {n for first, last in islands for n in range(first, last + 1)}

    @property
    def missing(self) -> int:
        return max(self.came) - min(self.came) + 1 - len(self.came)

    @property
    def told(self) -> int:
        return sum(total.missing + total.unlisted for total in self._tx.gaps.totals())


@pytest.mark.parametrize("seed", range(8))
def test_missing_numbers_are_counted_whatever_is_listed_and_whenever_they_come(
    platform_without_spark: Platform, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(told_sequences, "MOST_OPENED", 2)
    monkeypatch.setattr(sequences_module, "MOST_GAPS", 2)
    chance = random.Random(seed)
    numbers = chance.sample(range(60), 60)
    with platform_without_spark.gateway.transaction() as tx:
        journal = _Journal(tx)
        while numbers:
            some, numbers = numbers[: (cut := chance.randint(1, 9))], numbers[cut:]
            journal.bring(some)
            assert journal.told == journal.missing
        assert tx.gaps.totals() == []


@pytest.mark.parametrize("seed", range(8))
def test_numbers_that_tables_share_never_make_the_count_of_missing_ones_too_high(
    platform_without_spark: Platform, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(told_sequences, "MOST_OPENED", 2)
    monkeypatch.setattr(sequences_module, "MOST_GAPS", 2)
    chance = random.Random(seed)
    tables: list[Sequence[int]] = [chance.sample(range(60), 40) for _ in range(2)]
    with platform_without_spark.gateway.transaction() as tx:
        journal = _Journal(tx)
        for numbers in (*tables, range(60)):
            for begin in range(0, len(numbers), 7):
                journal.bring(numbers[begin : begin + 7])
                assert journal.told <= journal.missing
        assert tx.gaps.totals() == []


def test_two_tables_that_share_a_journal_leave_no_number_missing(
    platform_without_spark: Platform,
) -> None:
    with platform_without_spark.gateway.transaction() as tx:
        journal = _Journal(tx)
        journal.bring(range(1, 4_001, 2))
        assert journal.told == 1_999
        journal.bring(range(2, 4_001, 2))
        assert tx.gaps.totals() == []


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
        left = Gaps(connection).page(GapFilter(), after=None, limit=None)
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


def _id(number: int) -> str:
    return str(UUID(int=number))


def _rejected(number: int, *, device: str = "a", era: int = 0, at: int = NOW) -> RejectedBatch:
    return RejectedBatch(
        _id(number), device, "telemetry", "t", number, number, "invalid_row", "t", utc(at), era=era
    )


def test_a_rejection_explains_no_gap_of_another_era(platform_without_spark: Platform) -> None:
    with platform_without_spark.gateway.transaction() as tx:
        tx.sequences.advance(
            [("a", _change("t", [(3, 9)], era=era)) for era in range(3)], drain_id=1
        )
        batches = [_rejected(n, era=era) for n, era in ((4, 0), (5, 0), (6, 2))]
        tx.sequences.note_rejections(batches)
        assert [(gap[2], gap[-1]) for gap in _listed(tx)] == [(0, 2), (1, 0), (2, 1)]


def test_a_gap_names_the_rejections_that_had_its_numbers(
    api: ApiServer, shared_platform: Platform
) -> None:
    with shared_platform.gateway.transaction() as tx:
        tx.sequences.advance([("a", _change("t", [(3, 9), (12, 12)]))], drain_id=1)
        batches = [
            _rejected(n, device=device, at=NOW + n)
            for n, device in ((2, "a"), (4, "a"), (9, "a"), (10, "a"), (5, "b"))
        ]
        tx.sequences.note_rejections([*batches, batches[0]])
        tx.commit()

    items = api.get("/v1/gaps", limit=1)
    first = items["items"][0]
    assert (first["first_missing"], first["rejections"]) == (3, 2)
    assert (first["source_table"], first["rejection_ids"]) == ("t", [_id(4), _id(9)])
    assert first["discarded"] == 0
    rest = api.get("/v1/gaps", table="t", cursor=items["next_cursor"])["items"]
    assert [gap["first_missing"] for gap in rest] == [12]
    assert api.get("/v1/gaps", source_table="t", device_id="a") == api.get(
        "/v1/gaps", table="t", device="a", kind="telemetry"
    )
    assert api.get("/v1/gaps", device="b")["items"] == []


@pytest.mark.parametrize(
    "query",
    [
        {"kind": "rows", "table": "t"},
        {"kind": "rows", "source_table": "t"},
        {"device": "a", "device_id": "a"},
        {"table": "t", "source_table": "t"},
    ],
    ids=str,
)
def test_what_cannot_be_asked_of_gaps_is_refused(api: ApiServer, query: dict[str, str]) -> None:
    with api.client() as client:
        answer = client.get("/v1/gaps", params=query)
    assert (answer.status_code, answer.json()["error_code"]) == (422, "invalid_request")


def test_rejections_are_remembered_as_long_as_they_may_explain_an_open_gap(
    platform_without_spark: Platform,
) -> None:
    later = utc(NOW) + timedelta(days=1)
    with platform_without_spark.gateway.transaction() as tx:
        tx.sequences.advance([("a", _change("t", [(3, 9)]))], drain_id=1)
        tx.sequences.note_rejections([_rejected(4), _rejected(12), _rejected(5, device="b")])
        assert tx.sequences.forget_rejections(received_before=utc(NOW)) == 0
        assert tx.sequences.forget_rejections(received_before=later) == 2
        assert [gap[-1] for gap in _listed(tx)] == [1]
        tx.sequences.advance([("a", _change("t", [], [(3, 9)]))], drain_id=2)
        assert tx.sequences.forget_rejections(received_before=later) == 1


def test_rejections_of_journals_are_forgotten_while_their_gaps_stay(
    platform_without_spark: Platform,
) -> None:
    with platform_without_spark.gateway.transaction() as tx:
        tx.sequences.advance([("a", _change(EPOCH, [(3, 9)]))], drain_id=1)
        tx.sequences.note_rejections([_rejected(4)._replace(kind="rows", name=EPOCH)])
        assert [gap[-1] for gap in _listed(tx)] == [1]
        assert tx.sequences.forget_rejections(received_before=utc(NOW + 1)) == 1
        assert [gap[-1] for gap in _listed(tx)] == [0]


@pytest.mark.parametrize("seed", range(4))
def test_a_gap_counts_the_rejections_that_had_any_number_of_it(
    platform_without_spark: Platform, seed: int
) -> None:
    chance = random.Random(seed)
    gaps = {(name, era): _some_gaps(chance) for name, era in (("t", 0), ("t", 1), (EPOCH, 0))}
    batches = [_somewhere(chance, number) for number in range(200)]
    with platform_without_spark.gateway.transaction() as tx:
        for (name, era), opened in gaps.items():
            tx.sequences.advance([("a", _change(name, opened, era=era))], drain_id=1)
        tx.sequences.note_rejections(batches)
        listed = {(gap[1], gap[2], gap[3:5]): gap[5] for gap in _listed(tx)}
        forgotten = tx.sequences.forget_rejections(received_before=utc(NOW + 1))

    having = {
        (name, era, gap): [b for b in batches if (b.name, b.era) == (name, era) and _meets(b, gap)]
        for (name, era), opened in gaps.items()
        for gap in opened
    }
    assert listed == {gap: len(of_gap) for gap, of_gap in having.items()}
    assert sum(listed.values()) > 50
    assert len(batches) - forgotten == sum(len(b) for (n, _, _), b in having.items() if n == "t")


def _some_gaps(chance: random.Random) -> list[Island]:
    ends = sorted(chance.sample(range(300), 40))
    return [*zip(ends[::2], ends[1::2], strict=True)]


def _somewhere(chance: random.Random, number: int) -> RejectedBatch:
    of_journal = chance.random() < 0.3
    first = chance.randrange(300)
    batch = _rejected(number, era=chance.randrange(2))._replace(
        first_number=first, last_number=first
    )
    if not of_journal:
        return batch
    last = first + chance.choice([0, 3, 200])
    return batch._replace(kind="rows", name=EPOCH, era=0, last_number=last)


def _meets(batch: RejectedBatch, gap: Island) -> bool:
    return batch.first_number <= gap[1] and batch.last_number >= gap[0]


def test_however_many_gaps_a_device_has_each_rejection_is_looked_at_for_its_own(
    platform_without_spark: Platform,
) -> None:
    many = 3_000
    gateway = platform_without_spark.gateway
    with gateway.transaction() as tx:
        opened = [(10 * n, 10 * n + 2) for n in range(many)]
        tx.sequences.advance([("a", _change("t", opened))], drain_id=1)
        tx.sequences.note_rejections([_rejected(10 * n) for n in range(many)])
        tx.commit()
    engine = create_engine(gateway.url)
    with engine.connect() as connection:
        connection.execute(text("ANALYZE"))
        told = Gaps(connection).page(GapFilter(), after=None, limit=None)
        sequences = Sequences(connection)
        forgotten = sequences.forget_rejections(received_before=utc(NOW + 1))
        seen = connection.scalar(text(_ROWS_SEEN))
    engine.dispose()

    assert (sum(gap.rejections for gap in told), forgotten) == (many, 0)
    assert seen is not None
    assert seen < 20 * many


_ROWS_SEEN = """
    SELECT sum(seq_tup_read + idx_tup_fetch) FROM pg_stat_xact_user_tables
    WHERE relname IN ('sequence_gap', 'sequence_rejection')
"""


def test_of_very_many_rejections_that_may_reach_into_a_gap_of_a_journal_the_nearest_count(
    platform_without_spark: Platform,
) -> None:
    with platform_without_spark.gateway.transaction() as tx:
        tx.sequences.advance([("a", _change(EPOCH, [(8_000, 8_009)]))], drain_id=1)
        wide = _rejected(0)._replace(kind="rows", name=EPOCH, last_number=9_000)
        tx.sequences.note_rejections(
            [wide._replace(rejection_id=_id(n), first_number=n) for n in range(MOST_NEAR + 7)]
        )
        (told,) = tx.gaps.page(GapFilter(), after=None, limit=None)
    assert told.rejections == MOST_NEAR
    assert _id(0) not in told.rejection_ids


def test_a_rejection_explains_what_its_last_look_found(platform_without_spark: Platform) -> None:
    with platform_without_spark.gateway.transaction() as tx:
        tx.sequences.advance([("a", _change("t", [(3, 4), (6, 9)]))], drain_id=1)
        tx.sequences.note_rejections([_rejected(4)])
        again = _rejected(7)._replace(rejection_id=_id(4), received_at=utc(NOW + 1))
        tx.sequences.note_rejections([again])
        assert [gap[3:] for gap in _listed(tx)] == [(3, 4, 0), (6, 9, 1)]


def test_what_was_accepted_since_explains_no_gap_and_what_was_discarded_says_so(
    platform_without_spark: Platform,
) -> None:
    platform = platform_without_spark
    payloads = [telemetry(sample(n), seq=4 + n, row_count=7) for n in range(3)]
    topic = "acme/dev-1/sync/telemetry/batch"
    arrived = [message(payload, position=n, topic=topic) for n, payload in enumerate(payloads)]
    rejections = reject(platform, arrived, drain_id=1)
    states = (RejectionState.ACCEPTED, RejectionState.DISCARDED, RejectionState.EXPLAINED)
    with platform.gateway.transaction() as tx:
        tx.sequences.advance([("acme/dev-1", _change("t", [(3, 9)]))], drain_id=1)
        for n, rejection in enumerate(rejections):
            link = _rejected(4 + n, device="acme/dev-1", at=NOW + n)
            tx.sequences.note_rejections([link._replace(rejection_id=rejection.rejection_id)])
            tx.rejections.move(rejection.rejection_id, states[n], note=None)
        (told,) = tx.gaps.page(GapFilter(), after=None, limit=None)

    assert (told.rejections, told.discarded) == (2, 1)
    assert told.rejection_ids == [rejection.rejection_id for rejection in rejections[1:]]
