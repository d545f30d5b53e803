"""The narrowest scope that chose decides, each policy by itself."""

import pytest

from ilyama_protocol.governance.policies import (
    FirstSchema,
    Policy,
    PolicyChoice,
    PolicyScope,
    resolved,
)

PROJECT, TABLE = PolicyScope("waterworks"), PolicyScope("waterworks", "pumps")
REVIEW = PolicyChoice(first_schema=FirstSchema.REVIEW)
ACCEPT = PolicyChoice(first_schema=FirstSchema.ACCEPT)
STRICT, LENIENT = Policy(FirstSchema.REVIEW), Policy(FirstSchema.ACCEPT)

CASES = {
    "nobody chose": (STRICT, {}, FirstSchema.REVIEW),
    "the project chose": (LENIENT, {PROJECT: REVIEW}, FirstSchema.REVIEW),
    "the table beats its project": (STRICT, {PROJECT: REVIEW, TABLE: ACCEPT}, FirstSchema.ACCEPT),
    "the table alone": (LENIENT, {TABLE: REVIEW}, FirstSchema.REVIEW),
    "another table": (LENIENT, {PolicyScope("waterworks", "x"): REVIEW}, FirstSchema.ACCEPT),
    "another project": (LENIENT, {PolicyScope("gas"): REVIEW}, FirstSchema.ACCEPT),
    "devices of no project": (LENIENT, {PolicyScope(): REVIEW}, FirstSchema.ACCEPT),
    "a choice of something else": (
        STRICT,
        {TABLE: PolicyChoice(allow_additive_continue=True)},
        FirstSchema.REVIEW,
    ),
}


@pytest.mark.parametrize(("default", "choices", "expected"), CASES.values(), ids=CASES.keys())
def test_the_narrowest_scope_decides(
    default: Policy, choices: dict[PolicyScope, PolicyChoice], expected: FirstSchema
) -> None:
    assert resolved(default, choices, TABLE).first_schema is expected


def test_each_policy_is_resolved_by_itself() -> None:
    choices = {
        PROJECT: PolicyChoice(allow_additive_continue=True, allow_auto_create_datapoints=True),
        TABLE: PolicyChoice(FirstSchema.REVIEW, allow_auto_create_datapoints=False),
    }

    assert resolved(LENIENT, choices, TABLE) == Policy(
        FirstSchema.REVIEW, allow_additive_continue=True, allow_auto_create_datapoints=False
    )
