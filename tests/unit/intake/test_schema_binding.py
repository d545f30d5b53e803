"""Affinities hold from the first valid batch that names the columns behind its hash."""

from ilyama_protocol.fingerprint import schema_hash
from ilyama_protocol.governance.rules import DeviceRules
from ilyama_protocol.intake.datapoints import KIND_MISMATCH
from ilyama_protocol.intake.history import History
from ilyama_protocol.intake.schema_rulings import SchemaRulings
from tests.unit.intake.traffic import (
    NOW,
    TABLE,
    UNNAMED_SCHEMA,
    A,
    batch,
    change,
    columns,
    decided,
    engine,
    last_line,
    points_of,
    state_with,
    taken,
)

SCHEMA = columns(v="TEXT")
NUMBER_IN_TEXT = {"v": 5}


def test_values_go_by_their_own_type_until_the_columns_are_known() -> None:
    silent = batch(change(1, row=NUMBER_IN_TEXT), schema=SCHEMA, announce=False)

    (points,) = points_of(taken(silent))

    assert (points.kind, points.quarantine_reason) == ("metric", None)


def test_the_batch_that_announces_its_columns_is_the_first_they_hold_for() -> None:
    (points,) = points_of(taken(batch(change(1, row=NUMBER_IN_TEXT), schema=SCHEMA)))

    assert points.quarantine_reason == KIND_MISMATCH


def test_columns_announced_by_a_duplicate_hold_from_then_on() -> None:
    rows = [change(1, row=NUMBER_IN_TEXT)]
    silent = batch(*rows, schema=SCHEMA, announce=False)
    later = batch(change(2, row=NUMBER_IN_TEXT), schema=SCHEMA, announce=False)

    met = taken(silent, batch(*rows, schema=SCHEMA), later)

    assert [line.outcome for line in met.decisions.outcomes.ledger] == [
        "accepted",
        "duplicate",
        "accepted",
    ]
    assert [rows.points[0].quarantine_reason for rows in met.decisions.outcomes.accepted] == [
        None,
        KIND_MISMATCH,
    ]
    assert [s.holds_from for s in met.decisions.state.lineages[TABLE].schemas.values()] == [
        NOW + 1_000_000
    ]


def test_a_binding_keeps_the_moment_it_was_first_announced() -> None:
    met = taken(batch(change(1), schema=SCHEMA), batch(change(2), schema=SCHEMA))

    assert [s.holds_from for s in met.decisions.state.lineages[TABLE].schemas.values()] == [NOW]


def test_a_binding_outlives_its_drain() -> None:
    first = taken(batch(change(1), schema=SCHEMA))
    later = batch(change(2, row=NUMBER_IN_TEXT), schema=SCHEMA, announce=False)

    (points,) = points_of(decided([later], engine(first.decisions.state.copy())))

    assert points.quarantine_reason == KIND_MISMATCH


def test_another_hash_is_another_schema() -> None:
    other = columns(v="INTEGER")
    approved = DeviceRules(
        approved={TABLE: {schema_hash(TABLE, other): None, UNNAMED_SCHEMA: None}}
    )
    payloads = [
        batch(change(1), schema=SCHEMA),
        batch(change(2, row=NUMBER_IN_TEXT), schema=other, announce=False),
        batch(change(3, row=NUMBER_IN_TEXT)),
    ]
    met = decided(payloads, engine(rulings=SchemaRulings(approved)))

    assert [rows.points[0].kind for rows in met.decisions.outcomes.accepted[1:]] == [
        "metric",
        "metric",
    ]


def test_another_table_is_another_lineage() -> None:
    met = taken(batch(change(1), schema=SCHEMA), batch(change(2), table="valves"))

    assert not met.decisions.state.lineages["valves"].schemas


def test_a_rejected_batch_binds_nothing() -> None:
    state = state_with(watermarks={A: 20}, floors={A: 10})
    below = decided([batch(change(1), schema=SCHEMA)], engine(state, history=History()))

    assert last_line(below).code == "below_floor"
    assert not below.decisions.state.lineages[TABLE].schemas
