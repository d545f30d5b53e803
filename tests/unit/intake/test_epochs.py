"""The journal epochs of a device are ordered by their first accepted arrival."""

from ilyama_protocol.intake.state import DeviceState, LineageState
from tests.unit.intake.traffic import TABLE, A, B, C, batch, change, decided, engine, taken


def test_epochs_rank_by_arrival_and_not_by_the_time_in_their_ids() -> None:
    met = taken(*(batch(change(1), epoch=epoch) for epoch in (C, A, B, A)))

    assert met.decisions.state.epochs == {C: 0, A: 1, B: 2}


def test_the_tables_of_a_device_share_its_epochs() -> None:
    met = taken(batch(change(1), epoch=B), batch(change(2), epoch=A, table="valves"))

    assert met.decisions.state.epochs == {B: 0, A: 1}


def test_a_rejected_batch_gives_its_epoch_no_rank() -> None:
    broken = batch(change(1), epoch=B).replace(b'"op":"update"', b'"op":"upsert"')

    assert taken(broken, batch(change(1))).decisions.state.epochs == {A: 0}


def test_a_batch_below_the_floor_gives_its_epoch_no_rank() -> None:
    state = DeviceState(epochs={A: 0}, lineages={TABLE: LineageState(floors={B: 9})})

    assert decided([batch(change(1), epoch=B)], engine(state)).decisions.state.epochs == {A: 0}


def test_a_watermark_is_the_highest_number_of_its_epoch() -> None:
    met = taken(batch(change(7)), batch(change(3)), batch(change(2), epoch=B))

    assert met.decisions.state.lineages[TABLE].watermarks == {A: 7, B: 2}
