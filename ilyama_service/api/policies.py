"""`/v1/policies`: what projects and tables chose, and what holds for them."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from ilyama_protocol.governance.policies import (
    EVERY_TABLE,
    NO_PROJECT,
    FirstSchema,
    Policy,
    PolicyChoice,
    PolicyScope,
    resolved,
)
from ilyama_protocol.limits import MAX_TABLE_NAME
from ilyama_protocol.names import MAX_NAME
from ilyama_resources.postgres import Transaction
from ilyama_service.api.cursors import Page, PageQuery, decode_cursor, page_of
from ilyama_service.api.errors import documented
from ilyama_service.api.mutations import MutationBody, MutationHere, described, unfit_body
from ilyama_service.api.naming import OLD_TABLE
from ilyama_service.api.parts import PartsHere, PrincipalHere
from ilyama_service.policies import UnfitScope

router = APIRouter(tags=["reviews"])
_NO_CONTROL_CHARACTERS = r"^[^\u0000-\u001f\u007f-\u009f]*$"


class PolicyItem(BaseModel):
    """What holds for a lineage."""

    first_schema: FirstSchema
    allow_additive_continue: bool
    allow_auto_create_datapoints: bool


class ChoiceItem(BaseModel):
    """What a project or table chose; null leaves it to the next wider scope."""

    first_schema: FirstSchema | None = None
    allow_additive_continue: bool | None = None
    allow_auto_create_datapoints: bool | None = None


class PolicyBody(MutationBody, ChoiceItem):
    """What to choose, and for which project and table."""

    old_names = OLD_TABLE

    project: str = Field(
        NO_PROJECT, max_length=MAX_NAME, description="Empty: devices of no project."
    )
    table: str = Field(
        EVERY_TABLE,
        max_length=MAX_TABLE_NAME,
        description="Empty: every table.",
        json_schema_extra={"pattern": _NO_CONTROL_CHARACTERS},
    )


class ScopedChoice(BaseModel):
    """A choice, where it was made, and what holds there."""

    project: str
    source_table: str
    chosen: ChoiceItem
    holds: PolicyItem


class PoliciesAnswer(Page[ScopedChoice]):
    """The deployment's default, and choices in the order of project and table."""

    default: PolicyItem


@router.get("/v1/policies", responses=documented(401, 404, 422, 429, 503))
def show_policies(
    parts: PartsHere, _: PrincipalHere, query: Annotated[PageQuery, Query()]
) -> PoliciesAnswer:
    """The default of the settings, and what projects and tables chose."""
    default = parts.settings.policy
    after = decode_cursor(query.cursor, PolicyScope)
    with parts.gateway.transaction() as tx:
        found = tx.policies.page(after=after, limit=query.limit + 1)
        scopes, cursor = page_of(found, limit=query.limit, place=lambda scope: scope)
        choices = tx.policies.of({scope.project_id for scope in scopes})
    items = [_scoped(at, choices[at], resolved(default, choices, at)) for at in scopes]
    return PoliciesAnswer(default=_policy(default), items=items, next_cursor=cursor)


@router.put(
    "/v1/policies",
    response_model=ScopedChoice,
    responses=documented(401, 409, 413, 415, 422, 429, 503),
    openapi_extra=described(PolicyBody, required=True),
)
async def set_policies(mutation: MutationHere) -> Response:
    """Choose for a project or a table, in place of what was chosen before."""

    def act(tx: Transaction, body: PolicyBody) -> ScopedChoice:
        scope = PolicyScope(body.project, body.table)
        given = {name: getattr(body, name) for name in PolicyChoice.__struct_fields__}
        choice = PolicyChoice(**given)
        try:
            holds = mutation.parts.policies.choose(tx, scope, choice, actor=mutation.actor)
        except UnfitScope as error:
            raise unfit_body(error, "table") from error
        return _scoped(scope, choice, holds)

    return await mutation.carry_out(PolicyBody, act)


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
