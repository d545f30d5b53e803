"""The journal epochs of a device are ordered by their first accepted arrival."""

import pytest
from msgspec.structs import replace

from ilyama_protocol.canonical import pk_hash
from ilyama_protocol.intake.engine import IntakeEngine
from ilyama_protocol.intake.history import History, NewestChange
from ilyama_protocol.intake.outcomes import Origin
from ilyama_protocol.intake.state import DeviceState, LineageState, decode_state, encode_state
from tests.unit.intake.traffic import (
    NOW,
    TABLE,
    A,
    B,
    C,
    accepted_places,
    batch,
    change,
    decided,
    engine,
    message,
    taken,
)

D = "019693d0-0000-7000-8000-00000000000d"
SECOND = 1_000_000

each_replay = pytest.mark.parametrize("origin", [Origin.REJECTION, Origin.STAGED])


def _in_order(met: IntakeEngine) -> list[str]:
    epochs = met.decisions.state.epochs
    return sorted(epochs, key=epochs.__getitem__)


def _live(*arrivals: tuple[str, int]) -> DeviceState:
    """The state of a device that sent a row of each epoch, so many seconds after the first."""
    met = engine()
    for number, (epoch, second) in enumerate(arrivals):
        payload = batch(change(1), epoch=epoch, number=number)
        met.decide(message(payload, at=NOW + second * SECOND))
    return met.state_after(1)


def _replayed(
    state: DeviceState, *arrivals: tuple[str, int], origin: Origin, history: History | None = None
) -> IntakeEngine:
    met = engine(state.copy(), history=history, origin=origin)
    for number, (epoch, second) in enumerate(arrivals):
        payload = batch(change(5), epoch=epoch, number=50 + number)
        met.decide(message(payload, at=NOW + second * SECOND))
    return met


def test_epochs_rank_by_arrival_and_not_by_the_time_in_their_ids() -> None:
    met = taken(*(batch(change(1), epoch=epoch) for epoch in (C, A, B, A)))

    assert met.decisions.state.epochs == {C: NOW, A: NOW + SECOND, B: NOW + 2 * SECOND}


def test_the_tables_of_a_device_share_its_epochs() -> None:
    met = taken(batch(change(1), epoch=B), batch(change(2), epoch=A, table="valves"))

    assert met.decisions.state.epochs == {B: NOW, A: NOW + SECOND}


def test_a_rejected_batch_gives_its_epoch_no_rank() -> None:
    broken = batch(change(1), epoch=B).replace(b'"op":"update"', b'"op":"upsert"')

    assert taken(broken, batch(change(1))).decisions.state.epochs == {A: NOW + SECOND}


def test_a_batch_below_the_floor_gives_its_epoch_no_rank() -> None:
    state = DeviceState(epochs={A: 0}, lineages={TABLE: LineageState(floors={B: 9})})

    assert decided([batch(change(1), epoch=B)], engine(state)).decisions.state.epochs == {A: 0}


def test_a_watermark_is_the_highest_number_of_its_epoch() -> None:
    met = taken(batch(change(7)), batch(change(3)), batch(change(2), epoch=B))

    assert met.decisions.state.lineages[TABLE].watermarks == {A: 7, B: 2}


@each_replay
def test_an_epoch_that_is_accepted_afterwards_ranks_by_when_it_came(origin: Origin) -> None:
    state = _live((B, 10), (C, 30))

    met = _replayed(state, (A, 0), (D, 20), origin=origin, history=History())

    assert _in_order(met) == [A, B, D, C]


@each_replay
def test_its_rows_are_late_where_a_newer_journal_was_there_before(origin: Origin) -> None:
    newest = [NewestChange(TABLE, pk_hash({"id": 1}), B, 1)]

    met = _replayed(_live((B, 10)), (A, 0), origin=origin, history=History.of(newest=newest))

    assert accepted_places(met) == [(A, 5, True)]


@each_replay
def test_rows_of_an_epoch_that_came_last_are_not_late(origin: Origin) -> None:
    met = _replayed(_live((B, 10)), (C, 11), origin=origin)

    assert not met.decisions.needs
    assert accepted_places(met) == [(C, 5, False)]
    assert _in_order(met) == [B, C]


@each_replay
def test_every_batch_of_an_epoch_that_is_older_looks_for_newer_rows(origin: Origin) -> None:
    """The second came after the newer epoch; only the first tells how old its own is."""
    met = _replayed(_live((B, 10)), (A, 0), (A, 20), origin=origin)

    assert [need.after_drain for need in met.decisions.needs if need.source_table == TABLE] == [
        0,
        0,
    ]


def test_what_is_timed_anew_ranks_by_when_it_came() -> None:
    newest = [NewestChange(TABLE, pk_hash({"id": 1}), B, 1)]
    met = engine(_live((B, 10)), history=History.of(newest=newest), origin=Origin.REJECTION)

    anew = message(batch(change(5), number=50), at=NOW + 99 * SECOND)
    met.decide(replace(anew, timed_anew=True, arrived_at=NOW))

    assert met.decisions.outcomes.arrivals[0].received_at == NOW + 99 * SECOND
    assert accepted_places(met) == [(A, 5, True)]
    assert _in_order(met) == [A, B]


def test_ranks_of_older_builds_stay_and_come_before_all_others() -> None:
    lineage = b'{"watermarks":{"%s":3,"%s":4}}' % (C.encode(), B.encode())
    stored = b'{"epochs":{"%s":0,"%s":1},"lineages":{"%s":%s}}'
    state = decode_state(stored % (C.encode(), B.encode(), TABLE.encode(), lineage))

    met = decided([batch(change(5), epoch=B), batch(change(1), epoch=A)], engine(state))

    assert not met.decisions.needs
    assert met.decisions.state.epochs == {C: 0, B: 1, A: NOW + SECOND}
    assert decode_state(encode_state(met.decisions.state)) == met.decisions.state
