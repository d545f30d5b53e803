"""A device may announce ever new schemas: its state stays small, and nothing is lost with that."""

import pytest

from ilyama_protocol.fingerprint import SchemaColumn, schema_hash
from ilyama_protocol.governance.policies import FirstSchema, Policy
from ilyama_protocol.governance.rules import DeviceRules, ProjectRules, TableRules
from ilyama_protocol.intake.engine import IntakeEngine
from ilyama_protocol.intake.schema_rulings import SchemaRulings
from ilyama_protocol.intake.state import MOST_UNACCEPTED, DeviceState, LineageState, encode_state
from tests.unit.intake.traffic import (
    NOW,
    TABLE,
    batch,
    change,
    columns,
    decided,
    engine,
    sample,
    sampled,
    telemetry,
)

STRICT = Policy(FirstSchema.REVIEW)
ADDING = Policy(FirstSchema.ACCEPT, allow_additive_continue=True)
MANY = 200
WIDTH = 20


def schema(number: int) -> tuple[SchemaColumn, ...]:
    """A wide table of which only one column has another name every time."""
    usual = {f"column_{place}": "REAL" for place in range(WIDTH)}
    return columns(**usual, **{f"only_{number:05}": "TEXT"})


def named(number: int) -> str:
    return schema_hash(TABLE, schema(number))


def announced(
    *numbers: int,
    state: DeviceState | None = None,
    policy: Policy = STRICT,
    device: DeviceRules | None = None,
) -> IntakeEngine:
    """A drain in which schemas are announced, with a row each."""
    rulings = SchemaRulings(device, ProjectRules(policy, {TABLE: TableRules(policy)}))
    payloads = [batch(change(n + 1), number=n, schema=schema(n)) for n in numbers]
    return decided(payloads, engine(state, rulings=rulings))


def lineage_of(met: IntakeEngine) -> LineageState:
    return met.decisions.state.lineages[TABLE]


def test_the_state_of_a_device_with_ever_new_schemas_has_a_bound() -> None:
    state, sizes = DeviceState(), []
    for number in range(MANY):
        met = announced(number, state=state)
        state = met.state_after(number + 1).copy()
        sizes.append(len(encode_state(state)))

    one = sizes[1] - sizes[0]
    assert max(sizes) < (MOST_UNACCEPTED + 3) * one
    assert max(sizes[MANY // 2 :]) < sizes[MOST_UNACCEPTED + 1] + one


@pytest.mark.parametrize("drains", [1, 8, MANY], ids="{} drains".format)
def test_what_is_shelved_does_not_depend_on_how_the_stream_is_cut(drains: int) -> None:
    state, shelved = DeviceState(), []
    for first in range(0, MANY, MANY // drains):
        met = announced(*range(first, first + MANY // drains), state=state)
        shelved += [schema_hash for _, schema_hash in met.decisions.schemas.shelved]
        state = met.decisions.state.copy()

    kept = [named(0), *map(named, range(MANY - MOST_UNACCEPTED, MANY))]
    assert [*state.lineages[TABLE].schemas] == kept
    assert shelved == [named(number) for number in range(1, MANY - MOST_UNACCEPTED)]


def test_what_is_shelved_tells_its_columns_and_since_when_they_hold() -> None:
    met = announced(*range(MOST_UNACCEPTED + 2))

    ((place, bound),) = met.decisions.schemas.shelved.items()
    assert (place, bound.columns) == ((TABLE, named(1)), schema(1))
    assert NOW < bound.holds_from < NOW + 2_000_000


def test_a_schema_that_was_shelved_and_comes_again_is_observed_again() -> None:
    before = announced(*range(MANY))
    again = batch(change(MANY + 1), number=MANY, schema=schema(1))
    met = decided([again], engine(before.decisions.state.copy()))

    assert named(1) not in lineage_of(before).schemas
    assert [(s.schema_hash, s.is_new) for s in met.decisions.outcomes.schemas] == [(named(1), True)]
    assert named(1) in lineage_of(met).schemas


def test_accepted_schemas_are_never_shelved() -> None:
    adding = {f"column_{place}": "REAL" for place in range(3 * MOST_UNACCEPTED)}
    steps = [columns(**dict([*adding.items()][: n + 1])) for n in range(len(adding))]
    rulings = SchemaRulings(None, ProjectRules(ADDING, {TABLE: TableRules(ADDING)}))
    payloads = [batch(change(n + 1), number=n, schema=step) for n, step in enumerate(steps)]
    met = decided(payloads, engine(rulings=rulings))

    assert [*lineage_of(met).schemas] == [schema_hash(TABLE, step) for step in steps]
    assert not met.decisions.schemas.shelved


def test_an_approved_schema_is_not_shelved_before_it_is_accepted() -> None:
    before = announced(*range(5))
    approval = DeviceRules(approved={TABLE: {named(3): None}})
    met = announced(*range(5, MANY), state=before.decisions.state.copy(), device=approval)

    assert named(3) in lineage_of(met).schemas
    assert named(2) not in lineage_of(met).schemas


def test_duplicates_that_announce_schemas_do_not_let_the_state_grow() -> None:
    met = engine()
    for number in range(MANY):
        sampled(telemetry(sample(1), seq=1, schema=schema(number)), engine=met)

    assert len(lineage_of(met).schemas) == MOST_UNACCEPTED + 1
