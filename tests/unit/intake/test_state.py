"""What is remembered of a device survives its storage."""

from hypothesis import given
from hypothesis import strategies as st

from ilyama_protocol.fingerprint import Affinity, SchemaColumn
from ilyama_protocol.intake.state import (
    BoundSchema,
    DeviceState,
    LineageState,
    decode_state,
    encode_state,
)
from tests.unit.intake.traffic import NOW, TABLE, A, batch, change, columns, taken

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NUMBERS = st.integers(-(2**63), 2**63 - 1)
COLUMNS = st.builds(SchemaColumn, TEXTS, st.sampled_from(Affinity), NUMBERS, st.booleans())
SCHEMAS = st.builds(BoundSchema, NUMBERS, st.lists(COLUMNS, max_size=3).map(tuple))
BY_EPOCH = st.dictionaries(TEXTS, NUMBERS, max_size=3)
LINEAGES = st.builds(
    LineageState,
    watermarks=BY_EPOCH,
    floors=BY_EPOCH,
    schemas=st.dictionaries(TEXTS, SCHEMAS, max_size=2),
)
STATES = st.builds(
    DeviceState,
    next_received_at=st.none() | NUMBERS,
    epochs=BY_EPOCH,
    lineages=st.dictionaries(TEXTS, LINEAGES, max_size=3),
)


@given(STATES)
def test_a_stored_state_is_the_state(state: DeviceState) -> None:
    assert decode_state(encode_state(state)) == state


def test_a_copy_is_independent() -> None:
    state = taken(batch(change(1), schema=columns(v="TEXT"))).decisions.state
    copy = state.copy()

    copy.epochs["other"] = 1
    copy.lineage(TABLE).watermarks[A] = 99
    copy.lineage("other")

    assert state.epochs == {A: NOW}
    assert state.lineages[TABLE].watermarks == {A: 1}
    assert [*state.lineages] == [TABLE]


def test_a_state_does_not_grow_with_batches_or_rows() -> None:
    few = taken(batch(change(1)))
    many = taken(*(batch(change(seq, pk=seq)) for seq in range(1, 10)))

    assert len(encode_state(many.decisions.state)) == len(encode_state(few.decisions.state))
