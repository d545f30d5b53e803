"""Of a schema that was never announced, an approval publishes the columns it names and no other."""

from collections.abc import Mapping

import pytest

from ilyama_protocol.fingerprint import schema_hash
from ilyama_protocol.governance.bindings import MIRRORED, Actions, ColumnAction, Verb
from ilyama_protocol.governance.policies import FirstSchema, Policy
from ilyama_protocol.governance.rules import DeviceRules, ProjectRules
from ilyama_protocol.intake.engine import IntakeEngine
from ilyama_protocol.intake.schema_rulings import SchemaRulings
from ilyama_protocol.intake.state import DeviceState
from ilyama_protocol.mirror_types import kept_out_until, unmirrored_columns
from tests.unit.intake.traffic import (
    NOW,
    TABLE,
    UNNAMED_SCHEMA,
    batch,
    change,
    columns,
    decided,
    engine,
    message,
    staged,
)

STRICT, LENIENT = Policy(FirstSchema.REVIEW), Policy(FirstSchema.ACCEPT)
IGNORED: Actions = {"a": ColumnAction(Verb.IGNORE)}
FIRST, SECOND = {"a": 1}, {"a": 2, "secret": 3}


def took(
    *rows: Mapping[str, int],
    approved: Actions | None = None,
    state: DeviceState | None = None,
    policy: Policy = STRICT,
    first: int = 1,
) -> IntakeEngine:
    """An engine that took batches of a row each, all of a schema that is not announced."""
    device = DeviceRules(approved={} if approved is None else {TABLE: {UNNAMED_SCHEMA: approved}})
    payloads = [batch(change(n, row=row), number=n) for n, row in enumerate(rows, first)]
    before = None if state is None else state.copy()
    return decided(payloads, engine(before, rulings=SchemaRulings(device, ProjectRules(policy))))


def keys(met: IntakeEngine) -> list[str]:
    return sorted(p.key for rows in met.decisions.outcomes.accepted for p in rows.points)


def test_a_review_shows_the_columns_of_all_batches() -> None:
    (review,) = took(FIRST, SECOND, FIRST).decisions.schemas.reviews.values()

    assert (review.columns, review.seen) == (None, ("a", "secret"))


def test_a_review_of_an_announced_schema_shows_what_the_first_rows_had() -> None:
    rulings = SchemaRulings(None, ProjectRules(STRICT))
    payloads = [
        batch(change(n, row=row), number=n, schema=columns(a="REAL"))
        for n, row in enumerate((FIRST, SECOND), 1)
    ]
    (review,) = decided(payloads, engine(rulings=rulings)).decisions.schemas.reviews.values()

    assert review.seen == ("a",)


OLDER, NEWER = columns(v="TEXT", w="REAL"), columns(v="INTEGER")


def test_a_review_takes_up_columns_that_a_later_batch_announces() -> None:
    """The first question of the schema is ambiguous, the next one breaking."""
    payloads = [
        batch(change(1, row={"v": "x", "w": 1.5}), number=1, schema=OLDER),
        batch(change(2, row={"v": 1, "x": 2}), number=2, schema=NEWER, announce=False),
        batch(change(3, row={"v": 2, "y": 3}), number=3, schema=NEWER),
        batch(change(4, row={"v": 3, "z": 4}), number=4, schema=NEWER),
    ]
    met = decided(payloads, engine(rulings=SchemaRulings(None, ProjectRules(LENIENT))))
    (review,) = met.decisions.schemas.reviews.values()

    assert (review.schema_class, review.columns) == ("breaking", NEWER)
    assert (review.diff.dropped, review.diff.affinity_changed) == (("w",), ("v",))
    assert review.last_accepted == schema_hash(TABLE, OLDER)
    assert (review.received_at, review.seen) == (NOW + 1_000_000, ("v", "x", "y"))


def test_what_an_approval_does_not_name_is_not_published() -> None:
    assert keys(took(FIRST, SECOND, approved=IGNORED)) == []
    assert keys(took(FIRST, SECOND, approved={"a": MIRRORED})) == [f"{TABLE}.a", f"{TABLE}.a"]


def test_nor_is_it_when_staged_rows_are_released() -> None:
    state = took(FIRST, SECOND).decisions.state
    device = DeviceRules(approved={TABLE: {UNNAMED_SCHEMA: IGNORED}})
    releasing = engine(state.copy(), rulings=SchemaRulings(device, ProjectRules(STRICT)))
    releasing.release(staged(batch(change(2, row=SECOND), number=2)))

    assert len(releasing.decisions.outcomes.accepted) == 1
    assert keys(releasing) == []


def test_nor_does_it_reach_the_device_table() -> None:
    lineage = took(SECOND, approved={"a": MIRRORED}).decisions.state.lineages[TABLE]
    kept_out = unmirrored_columns(lineage.accepted_schemas()[UNNAMED_SCHEMA])

    assert kept_out_until("a", kept_out) <= NOW
    assert kept_out_until("secret", kept_out) > NOW


def test_it_is_published_from_the_first_batch_after_it_was_decided() -> None:
    before = took(SECOND, approved=IGNORED)
    wider = IGNORED | {"secret": MIRRORED}
    after = took(SECOND, approved=wider, state=before.decisions.state, first=2)
    binding = after.decisions.state.lineages[TABLE].accepted_schemas()[UNNAMED_SCHEMA]

    assert keys(after) == [f"{TABLE}.secret"]
    assert "secret" not in binding.at(NOW).keys(TABLE, ["a", "secret"])
    assert kept_out_until("secret", unmirrored_columns(binding)) > NOW


def test_a_policy_that_accepts_still_mirrors_everything() -> None:
    met = took(FIRST, SECOND, policy=LENIENT)

    assert keys(met) == [f"{TABLE}.a", f"{TABLE}.a", f"{TABLE}.secret"]


ANNOUNCED = columns(a="REAL")
ANNOUNCED_HASH = schema_hash(TABLE, ANNOUNCED)
EARLY = batch(change(1, row=SECOND), number=1, schema=ANNOUNCED, announce=False)
LATE = batch(change(2, row=SECOND), number=2, schema=ANNOUNCED)


def approving(actions: Actions | None, policy: Policy = STRICT) -> SchemaRulings:
    return SchemaRulings(
        DeviceRules(approved={TABLE: {ANNOUNCED_HASH: actions}}), ProjectRules(policy)
    )


def released(*payloads: tuple[bytes, int], state: DeviceState | None = None) -> IntakeEngine:
    """An engine that releases batches, each so many seconds after the first came."""
    staging = decided([EARLY, LATE], engine(rulings=SchemaRulings(None, ProjectRules(STRICT))))
    before = state or staging.decisions.state
    releasing = engine(before.copy(), rulings=approving(None))
    for payload, second in payloads:
        releasing.release(staged(payload, second))
    return releasing


@pytest.mark.parametrize("payloads", [[(EARLY, 0), (LATE, 1)], [(LATE, 1), (EARLY, 0)]])
def test_rows_from_before_the_columns_were_announced_show_no_others(
    payloads: list[tuple[bytes, int]],
) -> None:
    releasing = released(*payloads)

    assert keys(releasing) == [f"{TABLE}.a", f"{TABLE}.a"]
    binding = releasing.decisions.state.lineages[TABLE].accepted_schemas()[ANNOUNCED_HASH]
    assert "secret" not in binding.at(NOW).keys(TABLE, ["a", "secret"])
    assert kept_out_until("secret", unmirrored_columns(binding)) > NOW


def test_nor_do_they_when_the_schema_came_again_before_they_are_released() -> None:
    staging = decided([EARLY, LATE], engine(rulings=SchemaRulings(None, ProjectRules(STRICT))))
    again = batch(change(3, row=SECOND), number=3, schema=ANNOUNCED, announce=False)
    going_on = engine(staging.decisions.state.copy(), rulings=approving(None))
    going_on.decide(message(again, at=NOW + 9_000_000))
    assert keys(going_on) == [f"{TABLE}.a"]

    assert keys(released((EARLY, 0), state=going_on.decisions.state)) == [f"{TABLE}.a"]


def test_what_was_shown_before_the_columns_were_announced_stays_shown() -> None:
    """A policy had accepted the schema, and mirrored what its rows had."""
    lenient = SchemaRulings(None, ProjectRules(LENIENT))
    accepted = decided([EARLY, LATE], engine(rulings=lenient)).decisions.state

    late_release = released((EARLY, 0), state=accepted)

    assert keys(late_release) == [f"{TABLE}.a", f"{TABLE}.secret"]
