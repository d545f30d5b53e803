"""How far back a batch must look: marks say which drains cannot hold what it may meet."""

from hypothesis import given
from hypothesis import strategies as st

from ilyama_protocol.intake.state import MOST_MARKS, DeviceState, LineageState, Mark
from tests.unit.intake.traffic import TABLE, A, B, batch, change, decided, engine


def after_drains(*drains: list[bytes], state: DeviceState | None = None) -> DeviceState:
    """The state after drains of one device, the first of them number 1."""
    state = state or DeviceState()
    for number, payloads in enumerate(drains, start=1):
        asked = decided(payloads, engine(state.copy()))
        assert not asked.decisions.needs
        state = asked.state_after(number)
    return state


def asked_after(state: DeviceState, payload: bytes) -> int:
    (need,) = decided([payload], engine(state.copy())).decisions.needs
    return need.after_drain


def test_a_batch_that_comes_again_looks_no_further_back_than_its_first_arrival() -> None:
    payloads = [batch(change(seq)) for seq in range(1, 6)]
    state = after_drains(*([payload] for payload in payloads))

    assert [asked_after(state, payload) for payload in payloads] == [0, 1, 2, 3, 4]


def test_a_row_of_an_old_epoch_looks_back_to_where_the_newer_one_began() -> None:
    state = after_drains([batch(change(1))], [batch(change(2))], [batch(change(1), epoch=B)])

    assert asked_after(state, batch(change(3))) == 2
    assert asked_after(state, batch(change(2))) == 1


def test_a_state_without_marks_is_looked_up_in_every_drain() -> None:
    old = DeviceState(epochs={A: 0}, lineages={TABLE: LineageState(watermarks={A: 5})})
    state = after_drains([batch(change(6))], state=old)

    assert asked_after(state, batch(change(5))) == 0
    assert asked_after(state, batch(change(6))) == 0
    assert state.lineages[TABLE].marks == {A: [Mark(5, 0)]}


def test_drains_that_brought_the_table_nothing_are_not_looked_at() -> None:
    others = [[batch(change(seq), table="other")] for seq in range(1, 4)]
    state = after_drains([batch(change(1))], *others, [batch(change(2))])

    assert asked_after(state, batch(change(2))) == 4


@given(st.lists(st.integers(1, 40), min_size=1, max_size=200))
def test_no_row_lies_in_a_drain_that_is_not_looked_at(steps: list[int]) -> None:
    """Each drain stores the next rows of a journal, as many as `steps` says."""
    lineage, stored, highest = LineageState(), list[tuple[int, int]](), -1
    for drain_id, rows in enumerate(steps, start=1):
        before = LineageState(watermarks=dict(lineage.watermarks))
        stored += [(highest + n, drain_id) for n in range(1, rows + 1)]
        highest += rows
        lineage.watermarks[A] = highest
        lineage.mark(drain_id, before)

    assert all(lineage.stored_after(A, seq) < drain_id for seq, drain_id in stored)
    assert len(lineage.marks[A]) <= MOST_MARKS
    newest = [(seq, drain_id) for seq, drain_id in stored if drain_id > len(steps) - 4]
    assert all(lineage.stored_after(A, seq) == drain_id - 1 for seq, drain_id in newest)


def test_a_device_with_many_epochs_is_remembered_in_few_words() -> None:
    epochs = [f"01900000-0000-7000-8000-{number:012}" for number in range(50)]
    drains = [[batch(change(seq), epoch=epoch)] for epoch in epochs for seq in range(1, 9)]
    marks = after_drains(*drains).lineages[TABLE].marks

    assert [len(marks[epoch]) for epoch in epochs] == [2] * 48 + [8, 8]
    assert marks[epochs[0]] == [Mark(-1, 0), Mark(7, 7)]
