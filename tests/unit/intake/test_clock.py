"""A device's received_at only moves forward, far enough for every row to have a moment."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ilyama_protocol.intake.engine import Device, IntakeEngine
from ilyama_protocol.intake.outcomes import Origin
from ilyama_protocol.intake.state import DeviceState
from tests.unit.intake.traffic import DEVICE_ID, NOW, batch, engine, message

BROKEN = b"{}"
SMALLEST_ROW = {"commit_seq": 0, "op": "delete", "pk": {"": 0}}


@pytest.mark.parametrize(
    ("arrivals", "effective"),
    [
        ([(100, 0)], [100]),
        ([(100, 0), (200, 0)], [100, 200]),
        ([(100, 0), (100, 0)], [100, 101]),
        ([(100, 39), (100, 0)], [100, 101]),
        ([(100, 40), (100, 0)], [100, 102]),
        ([(100, 4000), (201, 0)], [100, 201]),
        ([(100, 4000), (200, 0)], [100, 201]),
        ([(100, 0), (50, 0), (60, 0)], [100, 101, 102]),
        ([(-5, 0), (-5, 0)], [-5, -4]),
    ],
)
def test_a_message_comes_after_the_one_before_and_its_rows(
    arrivals: list[tuple[int, int]], effective: list[int]
) -> None:
    state = DeviceState()

    assert [state.receive(landed_at, size) for landed_at, size in arrivals] == effective


def test_rejected_and_handled_messages_move_the_clock_too() -> None:
    clock = engine()
    ack = b'{"format_version":1,"control_id":"c"}'
    clock.decide(message(BROKEN))
    clock.decide(message(ack, topic="acme/dev-1/sync/ingest/ack"))
    clock.stage(message(BROKEN), "told to")
    clock.decide(message(BROKEN))

    outcomes = [line.outcome for line in clock.decisions.outcomes.ledger]
    assert outcomes == ["rejected", "handled", "staged", "rejected"]
    assert [a.received_at - NOW for a in clock.decisions.outcomes.arrivals] == [0, 1, 2, 3]


def test_the_clock_goes_on_in_the_next_drain() -> None:
    first = engine()
    first.decide(message(BROKEN))
    second = engine(first.decisions.state.copy())
    second.decide(message(BROKEN))

    assert second.decisions.outcomes.arrivals[0].received_at == NOW + 1


def test_senders_that_are_no_devices_share_no_clock() -> None:
    unknown = IntakeEngine(Device(None), DeviceState())
    unknown.decide(message(BROKEN))
    unknown.decide(message(BROKEN, at=NOW - 5))

    assert [a.received_at for a in unknown.decisions.outcomes.arrivals] == [NOW, NOW - 5]
    assert unknown.decisions.state == DeviceState()


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 50)), min_size=2, max_size=5))
def test_no_two_changes_of_a_device_meet_at_one_moment(batches: list[tuple[int, int]]) -> None:
    moments: list[int] = []
    clock = engine()
    seq = 0
    for rows, later in batches:
        changes = [SMALLEST_ROW | {"commit_seq": seq + i} for i in range(rows)]
        clock.decide(message(batch(*changes), at=NOW + later))
        moments += [clock.decisions.outcomes.arrivals[-1].received_at + i for i in range(rows)]
        seq += rows

    assert all(line.outcome == "accepted" for line in clock.decisions.outcomes.ledger)
    assert moments == sorted(set(moments))


def test_a_replayed_message_has_its_moment_and_leaves_the_clock_alone() -> None:
    state = DeviceState(next_received_at=NOW)
    replay = IntakeEngine(Device(DEVICE_ID), state, origin=Origin.REJECTION)
    replay.decide(message(BROKEN, at=NOW - 5))

    assert replay.decisions.outcomes.arrivals[0].received_at == NOW - 5
    assert replay.decisions.state.next_received_at == NOW


def test_a_replayed_message_without_a_place_on_the_clock_gets_a_new_one() -> None:
    state = DeviceState(next_received_at=NOW)
    replay = IntakeEngine(Device(DEVICE_ID), state, origin=Origin.REJECTION)
    replay.decide(msgspec.structs.replace(message(BROKEN, at=NOW - 5), timed_anew=True))

    assert replay.decisions.outcomes.arrivals[0].received_at == NOW
    assert replay.decisions.state.next_received_at == NOW + 1
