"""A batch that comes again byte for byte is known by its hash alone."""

from hashlib import sha256

import pytest

from ilyama_protocol.intake.digests import Digests
from ilyama_protocol.intake.history import History, KnownPayload
from tests.unit.intake.traffic import (
    TABLE,
    A,
    batch,
    change,
    counts,
    decided,
    engine,
    last_line,
    message,
    state_with,
    taken,
)

PAYLOAD = batch(change(1), change(2))


def test_a_repeat_within_a_drain_is_a_duplicate() -> None:
    repeated = taken(PAYLOAD, PAYLOAD)

    assert last_line(repeated).outcome == "duplicate"
    assert counts(last_line(repeated)) == {"received": 2, "duplicate": 2}
    assert last_line(repeated).batch_id == repeated.decisions.outcomes.ledger[0].batch_id


def test_a_repeat_of_an_earlier_drain_needs_no_stored_rows() -> None:
    known = KnownPayload(sha256(PAYLOAD).hexdigest(), TABLE, "batch", 2)
    told = engine(state_with(watermarks={A: 2}), history=History.of(payloads=[known]))

    decided([PAYLOAD], told)

    assert not told.decisions.outcomes.accepted
    assert (last_line(told).source_table, last_line(told).batch_id) == (TABLE, "batch")
    assert counts(last_line(told)) == {"received": 2, "duplicate": 2}


def test_a_repeated_conflict_is_counted_again() -> None:
    other = batch(change(1, row={}))

    met = taken(PAYLOAD, other, other)

    assert [*met.decisions.conflicts.values()] == [2]
    assert counts(last_line(met)) == {"received": 1, "duplicate": 1, "conflict": 1}


def test_a_repeated_rejection_is_a_rejection_of_its_own() -> None:
    broken = taken(b"{", b"{")

    assert [line.outcome for line in broken.decisions.outcomes.ledger] == ["rejected", "rejected"]
    assert len({rejected.rejection_id for rejected in broken.decisions.outcomes.rejected}) == 2


@pytest.mark.parametrize(
    ("path", "outcome", "code"),
    [
        ("sync/telemetry/batch", "rejected", "unsupported_capture_strategy"),
        ("sync/ingest/ack", "rejected", "invalid_envelope"),
        ("sync/nothing", "rejected", "unknown_topic"),
    ],
)
def test_the_same_bytes_on_another_topic_are_no_repeat(path: str, outcome: str, code: str) -> None:
    met = taken(PAYLOAD)
    met.decide(message(PAYLOAD, topic=f"acme/dev-1/{path}"))

    assert (last_line(met).outcome, last_line(met).code) == (outcome, code)


def test_a_batch_that_was_set_aside_is_decided_when_it_comes_again() -> None:
    met = engine()
    met.stage(message(PAYLOAD), "told to")
    met.decide(message(PAYLOAD))

    assert counts(last_line(met)) == {"received": 2, "new": 2}


def test_payloads_that_end_alike_keep_their_own_hashes() -> None:
    payloads = [b"a" + b"-" * 500, b"b" + b"-" * 500, b"a" + b"-" * 500, b"", b"-" * 500]
    digests = Digests()

    assert [digests.of(payload) for payload in payloads] == [
        sha256(payload).hexdigest() for payload in payloads
    ]
