"""`/v1/policies`: what projects and tables chose, and what holds for them."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from ilyama_protocol.governance.policies import (
    EVERY_TABLE,
    NO_PROJECT,
    FirstSchema,
    Policy,
    PolicyChoice,
    PolicyScope,
    resolved,
)
from ilyama_service.api.acting import acted
from ilyama_service.api.errors import documented
from ilyama_service.api.idempotency import IdempotencyKey
from ilyama_service.api.parts import PartsHere, PrincipalHere

router = APIRouter(tags=["reviews"])
_LONGEST_NAME = 512


class PolicyItem(BaseModel):
    """What holds for a lineage."""

    first_schema: FirstSchema
    allow_additive_continue: bool
    allow_auto_create_datapoints: bool


class ChoiceItem(BaseModel):
    """What a project or table chose; null leaves it to the next wider scope."""

    model_config = ConfigDict(extra="forbid")

    first_schema: FirstSchema | None = None
    allow_additive_continue: bool | None = None
    allow_auto_create_datapoints: bool | None = None


class ScopeQuery(BaseModel):
    """A project, and a table of it."""

    model_config = ConfigDict(extra="forbid")

    project: str = Field(
        NO_PROJECT, max_length=_LONGEST_NAME, description="Empty: devices of no project."
    )
    source_table: str = Field(
        EVERY_TABLE, max_length=_LONGEST_NAME, description="Empty: every table."
    )

    @property
    def scope(self) -> PolicyScope:
        """What is asked for."""
        return PolicyScope(self.project, self.source_table)


class ScopedChoice(BaseModel):
    """A choice, where it was made, and what holds there."""

    project: str
    source_table: str
    chosen: ChoiceItem
    holds: PolicyItem


class PoliciesAnswer(BaseModel):
    """The deployment's default and every choice."""

    default: PolicyItem
    choices: list[ScopedChoice]


@router.get("/v1/policies", responses=documented(401, 422, 429, 503))
def show_policies(parts: PartsHere, _: PrincipalHere) -> PoliciesAnswer:
    """The default of the settings, and what projects and tables chose."""
    default = parts.settings.policy
    with parts.gateway.transaction() as tx:
        choices = tx.policies.all()
    scoped = [
        _scoped(scope, choice, resolved(default, choices, scope))
        for scope, choice in choices.items()
    ]
    return PoliciesAnswer(default=_policy(default), choices=scoped)


@router.put(
    "/v1/policies", response_model=ScopedChoice, responses=documented(401, 409, 422, 429, 503)
)
async def set_policies(
    request: Request,
    parts: PartsHere,
    principal: PrincipalHere,
    query: Annotated[ScopeQuery, Query()],
    body: ChoiceItem,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Choose for a project or a table, in place of what was chosen before."""
    choice = PolicyChoice(**body.model_dump())

    def act() -> ScopedChoice:
        holds = parts.reviewing.choose(query.scope, choice, actor=principal.name)
        return _scoped(query.scope, choice, holds)

    return await acted(parts, request, principal, idempotency_key, act=act)


def _scoped(scope: PolicyScope, choice: PolicyChoice, holds: Policy) -> ScopedChoice:
    chosen = {name: getattr(choice, name) for name in PolicyChoice.__struct_fields__}
    return ScopedChoice(
        project=scope.project_id,
        source_table=scope.source_table,
        chosen=ChoiceItem(**chosen),
        holds=_policy(holds),
    )


def _policy(policy: Policy) -> PolicyItem:
    return PolicyItem(**{name: getattr(policy, name) for name in Policy.__struct_fields__})
