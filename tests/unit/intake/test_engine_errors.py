"""An error inside the engine sets one message aside and changes nothing else."""

import pytest

from ilyama_protocol.canonical import pk_hash, pk_hashes
from ilyama_protocol.intake.dedup import LineageMemory, decide_rows
from ilyama_protocol.intake.history import History, NewestChange
from ilyama_protocol.intake.outcomes import Message
from ilyama_protocol.intake.state import DeviceState, encode_state
from ilyama_protocol.messages import RowBatch
from ilyama_protocol.topics import MessageKind
from ilyama_protocol.validation import validate
from tests.unit.intake.traffic import (
    TABLE,
    A,
    B,
    accepted_places,
    batch,
    change,
    columns,
    counts,
    decided,
    engine,
    last_line,
    message,
    state_with,
    taken,
)

POISON = b"hemlock"
POISONED = batch(change(2, row={"v": "hemlock"}), change(3), epoch=B, schema=columns(v="TEXT"))


def _fail_on_poison(message: Message) -> None:
    if POISON in message.payload:
        raise RuntimeError("poisoned")


def _without_clock(state: DeviceState) -> bytes:
    stopped = state.copy()
    stopped.next_received_at = None
    return encode_state(stopped)


def test_a_poisoned_message_alone_is_set_aside() -> None:
    payloads = [batch(change(1)), POISONED, batch(change(2))]

    survivor = decided(payloads, engine(inspect=_fail_on_poison))

    assert [line.outcome for line in survivor.decisions.outcomes.ledger] == [
        "accepted",
        "staged",
        "accepted",
    ]
    assert accepted_places(survivor) == [(A, 1, False), (A, 2, False)]
    (staged,) = survivor.decisions.outcomes.staged
    assert staged.arrival.message.payload == POISONED
    assert (staged.reason, staged.source_table) == ("engine_error", TABLE)
    assert staged.error.endswith("RuntimeError: poisoned\n")
    assert staged.error.startswith("Traceback")


def test_a_message_that_was_set_aside_leaves_the_state_as_it_was() -> None:
    survivor = decided([batch(change(1))], engine(inspect=_fail_on_poison))
    before = _without_clock(survivor.decisions.state)

    survivor.decide(message(POISONED))

    assert _without_clock(survivor.decisions.state) == before
    assert not survivor.decisions.conflicts


def test_an_error_in_the_middle_of_a_decision_leaves_the_state_as_it_was() -> None:
    foreign = NewestChange(TABLE, pk_hash({"id": 1}), "an epoch the device never had", 7)
    told = engine(state_with(watermarks={A: 9}), history=History.of(newest=[foreign]))
    before = _without_clock(told.decisions.state)

    told.decide(message(batch(change(8), schema=columns(mode="TEXT"))))

    assert last_line(told).outcome == "staged"
    assert "KeyError" in told.decisions.outcomes.staged[0].error
    assert _without_clock(told.decisions.state) == before
    assert not told.decisions.outcomes.accepted
    assert not told.current
    assert not told.decisions.keys


@pytest.mark.parametrize("rows", [[1, 2], [2, 1], [1, 1]], ids=["climbing", "falling", "twins"])
def test_deciding_rows_remembers_nothing(rows: list[int]) -> None:
    state = DeviceState()
    verdict = validate(MessageKind.ROWS, batch(*map(change, rows)), registered=True)
    assert isinstance(verdict, RowBatch)

    decide_rows(state, LineageMemory(TABLE, History()), verdict, pk_hashes(verdict), 0)

    assert state == DeviceState()


@pytest.mark.parametrize(
    ("payload", "table", "rows"),
    [
        (POISONED, TABLE, {"received": 2, "staged": 2}),
        (POISONED.replace(b'"op":"update"', b'"op":"upsert"'), TABLE, {"received": 2, "staged": 2}),
        (b"{hemlock", None, {}),
    ],
    ids=["a valid batch", "an invalid batch", "no JSON"],
)
def test_a_staged_message_balances_in_the_ledger(
    payload: bytes, table: str | None, rows: dict[str, int]
) -> None:
    survivor = decided([payload], engine(inspect=_fail_on_poison))

    assert last_line(survivor).outcome == "staged"
    assert last_line(survivor).source_table == table
    assert counts(last_line(survivor)) == rows


def test_a_device_that_is_staged_as_a_whole_decides_nothing() -> None:
    told_to = engine()
    for payload in (batch(change(1)), b"{"):
        told_to.stage(message(payload), "the worker died")

    assert [line.outcome for line in told_to.decisions.outcomes.ledger] == ["staged", "staged"]
    assert {staged.error for staged in told_to.decisions.outcomes.staged} == {"the worker died"}
    assert _without_clock(told_to.decisions.state) == encode_state(DeviceState())


def test_what_was_decided_before_an_error_stays_decided() -> None:
    survivor = decided([batch(change(1)), POISONED], engine(inspect=_fail_on_poison))

    assert survivor.current == taken(batch(change(1))).current
