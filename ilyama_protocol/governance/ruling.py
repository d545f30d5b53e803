"""Ruling: what happens to a batch, by its schema, the policies and the pauses of its lineage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import NamedTuple

from ilyama_protocol.governance.classification import NewSchema, SchemaClass, classify
from ilyama_protocol.governance.policies import FirstSchema, Policy
from ilyama_protocol.intake.lineage_rulings import StagingReason


class Course(NamedTuple):
    """What happens to a batch: how its schema fares, and whether its rows wait."""

    accepts_schema: bool
    asks_for_review: bool
    staged_for: StagingReason | None


GO_ON = Course(False, False, None)
ACCEPT = Course(True, False, None)
HOLD = Course(False, False, StagingReason.LINEAGE_PAUSED)
ACCEPT_AND_HOLD = Course(True, False, StagingReason.LINEAGE_PAUSED)
REVIEW = Course(False, True, StagingReason.SCHEMA_REVIEW)


class Standing(StrEnum):
    """How the schema of a batch stands with its lineage."""

    ACCEPTED = "accepted"
    PERMITTED = "permitted"
    UNDECIDED = "undecided"


COURSES: Mapping[tuple[Standing, bool], Course] = {
    # the schema is         and the lineage is paused
    (Standing.ACCEPTED, False): GO_ON,
    (Standing.ACCEPTED, True): HOLD,
    (Standing.PERMITTED, False): ACCEPT,
    (Standing.PERMITTED, True): ACCEPT_AND_HOLD,
    (Standing.UNDECIDED, False): REVIEW,
    (Standing.UNDECIDED, True): REVIEW,
}


def _always(_: NewSchema, __: Policy) -> bool:
    return True


def _never(_: NewSchema, __: Policy) -> bool:
    return False


def _additive_continues(_: NewSchema, policy: Policy) -> bool:
    return policy.allow_additive_continue


def _first_is_accepted(schema: NewSchema, policy: Policy) -> bool:
    return schema.first and policy.first_schema is FirstSchema.ACCEPT


PERMISSIONS: Mapping[SchemaClass, Callable[[NewSchema, Policy], bool]] = {
    SchemaClass.COMPATIBLE_MAPPED: _always,
    SchemaClass.COMPATIBLE_ADDITIVE: _additive_continues,
    SchemaClass.AMBIGUOUS: _first_is_accepted,
    SchemaClass.BREAKING: _never,
    SchemaClass.UNKNOWN: _never,
}


class Ruling(NamedTuple):
    """The class of a schema that is new to its lineage, and what happens to its batch."""

    schema_class: SchemaClass
    course: Course


def course_of_accepted(*, paused: bool) -> Course:
    """What happens to a batch whose schema was accepted before."""
    return COURSES[Standing.ACCEPTED, paused]


def rule_on(schema: NewSchema, policy: Policy, *, paused: bool) -> Ruling:
    """What happens to a batch whose schema is new to its lineage."""
    schema_class = classify(schema)
    permitted = not schema.needs_a_person and PERMISSIONS[schema_class](schema, policy)
    standing = Standing.PERMITTED if permitted else Standing.UNDECIDED
    return Ruling(schema_class, COURSES[standing, paused])
