"""Class, policies and pauses say what happens to a batch."""

from dataclasses import replace
from itertools import product

import pytest

from ilyama_protocol.governance.classification import NewSchema, SchemaClass, classify
from ilyama_protocol.governance.policies import FirstSchema, Policy
from ilyama_protocol.governance.ruling import (
    ACCEPT,
    ACCEPT_AND_HOLD,
    COURSES,
    GO_ON,
    HOLD,
    PERMISSIONS,
    REVIEW,
    Course,
    Standing,
    course_of_accepted,
    rule_on,
)
from ilyama_protocol.intake.lineage_rulings import StagingReason
from tests.unit.governance.schemas import columns

OLD = columns("id:INTEGER:pk1:nn")
BOUND = frozenset({"id"})
SCHEMAS = {
    "approved": NewSchema(None, approved=True, first=True),
    "all bound": NewSchema(columns("id:INTEGER:pk1"), OLD, BOUND),
    "additive": NewSchema(columns("id:INTEGER:pk1:nn", "mode:TEXT"), OLD, BOUND),
    "first": NewSchema(OLD, first=True),
    "first, silent": NewSchema(None, first=True),
    "silent": NewSchema(None, OLD, BOUND),
    "breaking": NewSchema(columns("mode:TEXT"), OLD, BOUND),
    "first, breaking": NewSchema(OLD, first=True, device_table={"id": "TEXT"}),
    "unknown": NewSchema(OLD),
}
DEFAULT = Policy()
STRICT = Policy(FirstSchema.REVIEW)
GROWING = Policy(FirstSchema.REVIEW, allow_additive_continue=True)

CASES = [
    # schema           policy   the course when active
    ("approved", STRICT, ACCEPT),
    ("all bound", STRICT, ACCEPT),
    ("additive", DEFAULT, REVIEW),
    ("additive", GROWING, ACCEPT),
    ("first", DEFAULT, ACCEPT),
    ("first", STRICT, REVIEW),
    ("first, silent", DEFAULT, ACCEPT),
    ("first, silent", STRICT, REVIEW),
    ("silent", DEFAULT, REVIEW),
    ("silent", GROWING, REVIEW),
    ("breaking", DEFAULT, REVIEW),
    ("breaking", GROWING, REVIEW),
    ("first, breaking", DEFAULT, REVIEW),
    ("unknown", DEFAULT, REVIEW),
    ("unknown", GROWING, REVIEW),
]
WHEN_PAUSED = {ACCEPT: ACCEPT_AND_HOLD, REVIEW: REVIEW}


@pytest.mark.parametrize(("name", "policy", "course"), CASES)
def test_class_and_policy_rule_on_a_batch(name: str, policy: Policy, course: Course) -> None:
    ruling = rule_on(SCHEMAS[name], policy, paused=False)

    assert (ruling.schema_class, ruling.course) == (classify(SCHEMAS[name]), course)


@pytest.mark.parametrize(("name", "policy", "course"), CASES)
def test_rows_of_a_paused_lineage_wait(name: str, policy: Policy, course: Course) -> None:
    ruling = rule_on(SCHEMAS[name], policy, paused=True)

    assert ruling.course == WHEN_PAUSED[course]
    assert ruling.course.staged_for is not None


@pytest.mark.parametrize(("paused", "course"), [(False, GO_ON), (True, HOLD)])
def test_an_accepted_schema_goes_on_unless_the_lineage_is_paused(
    paused: bool, course: Course
) -> None:
    assert course_of_accepted(paused=paused) is course


MEETING = frozenset({"id"})
NOT_FOR_POLICIES = [
    NewSchema(OLD, OLD, BOUND, under_one_key=MEETING),
    NewSchema(columns("id:INTEGER:pk1:nn", "mode:TEXT"), OLD, BOUND, under_one_key=MEETING),
    NewSchema(OLD, first=True, under_one_key=MEETING),
    NewSchema(OLD, OLD, BOUND, rejected=True),
    NewSchema(columns("id:INTEGER:pk1:nn", "mode:TEXT"), OLD, BOUND, rejected=True),
    NewSchema(OLD, first=True, rejected=True),
]


@pytest.mark.parametrize("schema", NOT_FOR_POLICIES)
@pytest.mark.parametrize("paused", [False, True])
def test_what_needs_a_person_no_policy_accepts_until_somebody_approves(
    schema: NewSchema, paused: bool
) -> None:
    every = Policy(FirstSchema.ACCEPT, allow_additive_continue=True)

    assert rule_on(schema, every, paused=paused).course == REVIEW
    approved = rule_on(replace(schema, approved=True), every, paused=False)
    assert approved.course == ACCEPT


def test_the_tables_are_complete() -> None:
    assert {*COURSES} == {*product(Standing, (False, True))}
    assert {*PERMISSIONS} == {*SchemaClass}


def test_only_what_needs_a_review_is_staged_for_one() -> None:
    for course in COURSES.values():
        assert course.asks_for_review == (course.staged_for is StagingReason.SCHEMA_REVIEW)
        assert not (course.asks_for_review and course.accepts_schema)
