"""Policies: what a deployment, a project or a table lets happen without a person."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

import msgspec

NO_PROJECT = ""
"""The devices that belong to no project have policies too, and share nothing else."""

EVERY_TABLE = ""


class FirstSchema(StrEnum):
    """What happens to the first schema of a lineage."""

    REVIEW = "review"
    ACCEPT = "accept"


class Policy(msgspec.Struct, frozen=True):
    """What holds for a lineage."""

    first_schema: FirstSchema = FirstSchema.ACCEPT
    allow_additive_continue: bool = False
    allow_auto_create_datapoints: bool = False


class PolicyChoice(msgspec.Struct, frozen=True, omit_defaults=True):
    """What somebody chose for a project or a table; None leaves it to the next wider scope."""

    first_schema: FirstSchema | None = None
    allow_additive_continue: bool | None = None
    allow_auto_create_datapoints: bool | None = None


class PolicyScope(NamedTuple):
    """What a choice is for: a table of a project, or all tables of it."""

    project_id: str = NO_PROJECT
    source_table: str = EVERY_TABLE


Choices = Mapping[PolicyScope, PolicyChoice]


def resolved(default: Policy, choices: Choices, scope: PolicyScope) -> Policy:
    """The policy of a table: its own choice, else its project's, else the deployment's."""
    policy = default
    for wider in (PolicyScope(scope.project_id, EVERY_TABLE), scope):
        chosen = choices.get(wider)
        if chosen is not None:
            policy = _narrowed(policy, chosen)
    return policy


def _narrowed(policy: Policy, chosen: PolicyChoice) -> Policy:
    fields = PolicyChoice.__struct_fields__
    given = {name: value for name in fields if (value := getattr(chosen, name)) is not None}
    return msgspec.structs.replace(policy, **given)
