"""Rehearsals answer as the platform does, message after message."""

import pytest

from ilyama_protocol.guessing import guessed_path
from ilyama_protocol.rehearsal import Rehearsal
from ilyama_protocol.topics import SYNC_PATHS, MessageKind
from tests.memory_platform import MemoryPlatform
from tests.oracle import Event
from tests.streams import generate
from tests.unit.intake.traffic import B, batch, change
from tests.unit.protocol.payloads import ABSENT, document, encoded

ROWS = "sync/rows/batch"
COUNTS = ("new", "duplicate", "conflict", "below_floor", "rejected", "staged")


@pytest.mark.parametrize("seed", range(2))
def test_the_answers_are_those_of_a_platform(seed: int) -> None:
    events = generate(seed, batches=40, rows_per_batch=(1, 3))
    rehearsal, platform = Rehearsal(), MemoryPlatform()
    for event in events:
        answer = rehearsal.publish(event.topic, event.payload)
        platform.drain([Event(event.topic, event.payload, event.received_at_us)])
        line = platform.tables["batch_ledger"][-1]
        assert (answer.outcome, answer.code) == (line["outcome"], line["code"])
        for name in COUNTS:
            assert getattr(answer, f"rows_{name}") == line[f"rows_{name}"]


def test_a_topic_without_a_root_is_one_of_the_same_device() -> None:
    rehearsal = Rehearsal("plant/dev-9")
    payload = batch(change(1))

    assert rehearsal.publish(ROWS, payload).outcome == "accepted"
    assert rehearsal.publish("plant/dev-9/sync/rows/batch", payload).outcome == "duplicate"
    assert rehearsal.publish("plant/dev-8/sync/rows/batch", payload).outcome == "accepted"


def test_an_answer_says_in_one_line_what_became_of_the_rows() -> None:
    rehearsal = Rehearsal()
    first, clone = batch(change(5), change(6)), batch(change(6, row={"mode": "other"}), number=1)

    late, rebuilt = batch(change(4), number=2), batch(change(1), epoch=B)

    sent = (first, first, clone, late, b"{", rebuilt)
    told = [rehearsal.publish(ROWS, payload).sentence for payload in sent]

    assert told == [
        "accepted, 2 rows: 2 new",
        "duplicate, 2 rows: 2 duplicate",
        "duplicate, 1 rows: 1 duplicate, 1 in conflict",
        "accepted, 1 rows: 1 new, 1 late",
        "rejected, invalid_json at $",
        "accepted, 1 rows: 1 new",
    ]


def test_a_device_that_is_not_registered_is_rejected() -> None:
    answer = Rehearsal().publish(ROWS, batch(change(1)), registered=False)

    assert (answer.code, answer.action, answer.is_sound) == ("unregistered_device", "fix", False)


@pytest.mark.parametrize(("path", "kind"), SYNC_PATHS.items())
def test_the_members_of_a_message_tell_its_topic(path: str, kind: MessageKind) -> None:
    assert guessed_path(encoded(document(kind))) == path


@pytest.mark.parametrize("kind", [MessageKind.ROWS, MessageKind.TELEMETRY])
@pytest.mark.parametrize("strategy", [ABSENT, None, "another"])
def test_a_batch_without_its_capture_strategy_is_still_told(
    kind: MessageKind, strategy: object
) -> None:
    path = guessed_path(encoded(document(kind, capture_strategy=strategy)))

    assert path is not None
    assert SYNC_PATHS[path] is kind


@pytest.mark.parametrize(
    "payload",
    [b"", b"{", b"[]", b"\xff", b"{}", b'{"format_version":1}', b'{"control_id":1,"batch_seq":2}'],
)
def test_a_message_that_tells_nothing_or_two_things_is_not_guessed(payload: bytes) -> None:
    assert guessed_path(payload) is None
