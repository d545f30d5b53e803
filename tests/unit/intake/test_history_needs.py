"""Only a row that may repeat, or be older than, a stored one has to be looked up."""

from hashlib import sha256

import pytest

from ilyama_protocol.canonical import pk_hash
from ilyama_protocol.intake.history import BatchNeed, History
from ilyama_protocol.intake.state import DeviceState, LineageState
from tests.unit.intake.traffic import TABLE, A, B, C, batch, change, decided, engine, message, taken


def _state() -> DeviceState:
    return DeviceState(
        epochs={A: 0, B: 1},
        lineages={
            TABLE: LineageState(watermarks={A: 50, B: 20}),
            "quiet": LineageState(watermarks={A: 5}),
            "fresh": LineageState(watermarks={B: 5}),
        },
    )


@pytest.mark.parametrize(
    ("table", "epoch", "seqs", "asks"),
    [
        (TABLE, B, [21, 22], False),
        (TABLE, B, [20], True),
        (TABLE, B, [30, 19], True),
        (TABLE, A, [50], True),
        (TABLE, A, [51], True),
        (TABLE, C, [1], False),
        ("quiet", A, [6], False),
        ("quiet", A, [5], True),
        ("quiet", B, [1], False),
        ("fresh", A, [9], True),
        ("unheard of", A, [1], False),
    ],
    ids=[
        "above the watermark of the newest epoch",
        "at the watermark",
        "one row below the watermark",
        "at the watermark of an old epoch",
        "above it: may be late against a newer epoch",
        "an epoch that is new",
        "an old epoch that is the lineage's newest, above its watermark",
        "the same, at its watermark",
        "a known epoch that the lineage has nothing of, newer than what it has",
        "the same, older than what it has",
        "a table that is new",
    ],
)
def test_a_batch_asks_only_when_it_may_meet_stored_rows(
    table: str, epoch: str, seqs: list[int], asks: bool
) -> None:
    payload = batch(*map(change, seqs), epoch=epoch, table=table)

    asked = decided([payload], engine(_state()))

    assert bool(asked.decisions.needs) == asks
    assert bool(asked.decisions.outcomes.accepted) != asks


def test_a_need_names_the_keys_and_the_bytes_of_its_batch() -> None:
    payload = batch(change(10, pk=1), change(20, pk=2), epoch=B)

    asked = decided([payload], engine(_state()))

    hashes = [pk_hash({"id": 1}), pk_hash({"id": 2})]
    assert asked.decisions.needs == [
        BatchNeed(sha256(payload).hexdigest(), TABLE, B, hashes, [10, 20], 0)
    ]


def test_the_batches_after_one_that_asks_are_only_asked_for() -> None:
    payloads = [batch(change(seq), epoch=B) for seq in (21, 20, 22, 19)]

    asked = decided(payloads, engine(_state()))

    needs = [need for need in asked.decisions.needs if isinstance(need, BatchNeed)]
    assert [need.commit_seqs for need in needs] == [[20], [19]]
    assert [[*rows.batch.commit_seq] for rows in asked.decisions.outcomes.accepted] == [[21]]


def test_an_engine_that_was_told_asks_no_more() -> None:
    told = decided([batch(change(20), epoch=B)], engine(_state(), history=History()))

    assert not told.decisions.needs
    assert told.decisions.outcomes.accepted


def test_rows_that_meet_only_rows_of_their_own_drain_need_no_history() -> None:
    met = taken(batch(change(5)), batch(change(1), epoch=B), batch(change(4)), batch(change(5)))

    assert not met.decisions.needs


@pytest.mark.parametrize(
    ("topic", "payload"),
    [
        ("acme/dev-1/sync/rows/batch", b"{"),
        ("acme/dev-1/sync/ingest/ack", b'{"format_version":1,"control_id":"c"}'),
        ("devices/dev-1/telemetry", b"{}"),
        ("nonsense", b""),
    ],
)
def test_what_is_no_valid_row_batch_never_asks(topic: str, payload: bytes) -> None:
    asked = engine(_state())
    asked.decide(message(payload, topic=topic))

    assert not asked.decisions.needs
    assert len(asked.decisions.outcomes.ledger) == 1
