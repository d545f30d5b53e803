"""A replayed rejection keeps its moment: what was decided since without its columns stays so."""

import pytest
from msgspec.structs import replace

from ilyama_protocol.fingerprint import schema_hash
from ilyama_protocol.governance.policies import FirstSchema, Policy
from ilyama_protocol.governance.rules import ProjectRules
from ilyama_protocol.intake.datapoints import KIND_MISMATCH
from ilyama_protocol.intake.engine import IntakeEngine
from ilyama_protocol.intake.history import History
from ilyama_protocol.intake.outcomes import Message, Origin
from ilyama_protocol.intake.schema_rulings import SchemaRulings
from ilyama_protocol.intake.state import BoundSchema, DeviceState
from tests.unit.intake.traffic import (
    NOW,
    TABLE,
    TELEMETRY_TOPIC,
    batch,
    change,
    columns,
    engine,
    message,
    sample,
    telemetry,
)

SCHEMA = columns(v="TEXT")
HASH = schema_hash(TABLE, SCHEMA)
SECOND = 1_000_000
STRICT = SchemaRulings(None, ProjectRules(Policy(FirstSchema.REVIEW)))


def rows(number: int, *, announce: bool) -> bytes:
    """A batch whose value does not fit the column that the schema says it has."""
    content = change(number, pk=number, row={"v": 5})
    return batch(content, schema=SCHEMA, announce=announce, number=number)


def at(second: int, payload: bytes) -> Message:
    return message(payload, at=NOW + second * SECOND)


def live(*messages: Message) -> IntakeEngine:
    taking = engine()
    for arrived in messages:
        taking.decide(arrived)
    return taking


def replayed(
    state: DeviceState,
    *messages: Message,
    rulings: SchemaRulings | None = None,
    origin: Origin = Origin.REJECTION,
) -> IntakeEngine:
    """An engine that knows what came before, and takes messages again."""
    taking = engine(state.copy(), history=History(), rulings=rulings, origin=origin)
    for arrived in messages:
        taking.decide(arrived)
    return taking


def reasons(met: IntakeEngine) -> list[str | None]:
    accepted = met.decisions.outcomes.accepted
    return [points.quarantine_reason for rows in accepted for points in rows.points]


def bound(met: IntakeEngine) -> BoundSchema:
    return met.decisions.state.lineages[TABLE].schemas[HASH]


@pytest.mark.parametrize("origin", [Origin.REJECTION, Origin.STAGED])
def test_columns_hold_from_now_on_where_rows_went_by_their_values_since(origin: Origin) -> None:
    before = live(at(5, rows(5, announce=False))).decisions.state

    met = replayed(before, at(2, rows(2, announce=True)), origin=origin)

    assert reasons(met) == [None]
    assert bound(met) == BoundSchema(before.next_received_at or 0, SCHEMA)
    lineage = met.decisions.state.lineages[TABLE]
    assert [lineage.schema_at(HASH, NOW + n * SECOND) for n in (2, 5)] == [None, None]


def test_the_next_batch_goes_by_them() -> None:
    before = live(at(5, rows(5, announce=False))).decisions.state
    after = replayed(before, at(2, rows(2, announce=True))).decisions.state

    taking = engine(after.copy())
    taking.decide(at(6, rows(6, announce=False)))

    assert reasons(taking) == [KIND_MISMATCH]


def test_columns_hold_from_their_moment_where_nothing_of_the_schema_was_shown() -> None:
    met = replayed(DeviceState(), at(2, rows(2, announce=True)), at(3, rows(3, announce=False)))

    assert bound(met).holds_from == NOW + 2 * SECOND
    assert reasons(met) == [KIND_MISMATCH, KIND_MISMATCH]


def test_what_came_before_the_columns_were_known_goes_by_its_values() -> None:
    before = live(at(5, rows(5, announce=True))).decisions.state

    met = replayed(before, at(2, rows(2, announce=True)), at(3, rows(3, announce=False)))

    assert reasons(met) == [None, None]
    assert bound(met).holds_from == NOW + 5 * SECOND


def test_in_which_order_two_are_replayed_makes_no_difference() -> None:
    before = live(at(5, rows(5, announce=False))).decisions.state
    one, other = at(2, rows(2, announce=True)), at(3, rows(3, announce=False))

    forth, back = replayed(before, one, other), replayed(before, other, one)

    assert reasons(forth) == reasons(back) == [None, None]
    assert bound(forth) == bound(back)


def test_one_that_is_timed_anew_is_the_last_that_came() -> None:
    before = live(at(5, rows(5, announce=False))).decisions.state

    met = replayed(before, replace(at(9, rows(9, announce=True)), timed_anew=True))

    assert reasons(met) == [KIND_MISMATCH]
    assert bound(met).holds_from == NOW + 9 * SECOND


def test_a_review_knows_the_columns_that_hold_only_later() -> None:
    before = live(at(5, rows(5, announce=False))).decisions.state
    before.lineages[TABLE].accepted = {}

    met = replayed(before, at(2, rows(2, announce=True)), rulings=STRICT)

    (review,) = met.decisions.schemas.reviews.values()
    assert review.columns == SCHEMA


def test_a_known_batch_of_telemetry_announces_columns_from_now_on() -> None:
    told = telemetry(sample(1, v=5), schema=SCHEMA)
    silent = telemetry(sample(1, v=5), schema=SCHEMA, schema_columns=None)
    first = engine()
    first.decide(message(silent, at=NOW + 5 * SECOND, topic=TELEMETRY_TOPIC))
    again = engine(first.decisions.state, history=History(), origin=Origin.REJECTION)
    again.decide(message(silent, at=NOW + SECOND, topic=TELEMETRY_TOPIC))
    before = again.decisions.state.next_received_at

    again.decide(message(told, at=NOW + 2 * SECOND, topic=TELEMETRY_TOPIC))

    assert again.decisions.state.lineages[TABLE].schemas[HASH].holds_from == before
