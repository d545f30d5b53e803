"""`/v1/reviews`: schemas that wait for a person, what is known of them, and the decision."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated, Any, Literal, Self

import msgspec
from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field, model_validator

from ilyama_protocol.governance.bindings import Actions, ColumnAction, Verb
from ilyama_protocol.governance.classification import SchemaClass
from ilyama_protocol.governance.reviews import ReviewState, ReviewVerb
from ilyama_protocol.moments import utc
from ilyama_resources.postgres import Transaction
from ilyama_resources.postgres.governance.reviews import Review, ReviewFilter
from ilyama_service.api.cursors import HIGHEST_ID, Page, PageQuery, newest_first
from ilyama_service.api.errors import Conflict, NotFound, UnfitAnswer, documented
from ilyama_service.api.mutations import WHOLE, Mutation, MutationBody, MutationHere, described
from ilyama_service.api.naming import OLD_TABLE
from ilyama_service.api.parts import Parts, PartsHere, PrincipalHere
from ilyama_service.review_evidence import evidence_of
from ilyama_service.reviewing import (
    Act,
    Closing,
    ReviewConflict,
    ReviewNotFound,
    UnfitActions,
    review_as_seen,
)

_LONGEST_NOTE = 2_000

router = APIRouter(tags=["reviews"])
ReviewId = Annotated[int, Path(ge=1, le=HIGHEST_ID)]
SeenVersion = Annotated[int, Field(ge=1, le=2**31 - 1), WHOLE]
OtherVerb = Literal["start", "reject", "abandon", "reopen"]


class ColumnItem(BaseModel):
    """A column that a device announced."""

    name: str
    decl_type_affinity: str
    pk_ordinal: int
    not_null: bool


class ActionItem(BaseModel):
    """What is done with a column."""

    model_config = ConfigDict(extra="forbid")

    action: Verb
    key: str | None = Field(
        None, description="The datapoint key of `map`, or of `auto_create_and_map`."
    )


class ReviewItem(BaseModel):
    """A schema that is new to its lineage, and how far its review has come."""

    review_id: int
    device_id: str
    source_table: str
    schema_hash: str
    project_id: str | None
    schema_class: SchemaClass
    state: ReviewState
    action_version: int = Field(description="What an act on the review must name.")
    columns: list[ColumnItem] | None = Field(description="Null: the device never announced them.")
    seen_columns: list[str] = Field(description="The columns that rows had so far.")
    firmware_version: str
    first_received_at: datetime
    opened_by: int = Field(description="The drain that asked.")
    opened_at: datetime
    started_at: datetime | None
    decided_at: datetime | None
    decided_by: str | None
    note: str | None
    actions: dict[str, ActionItem] | None = Field(description="What was approved, by column.")
    shared_from: int | None = Field(description="The review whose approval decided this one.")


class ReviewDetail(ReviewItem):
    """A review with its evidence."""

    evidence: dict[str, Any]


class ReviewQuery(PageQuery):
    """Which reviews are asked for."""

    old_names = OLD_TABLE

    state: ReviewState | None = None
    table: str | None = None
    project: str | None = None
    device: str | None = None


class ActBody(MutationBody):
    """An act on a review as the person has seen it."""

    action_version: SeenVersion
    note: str | None = Field(None, max_length=_LONGEST_NOTE)


class ApprovalBody(ActBody):
    """An approval."""

    actions: dict[str, ActionItem] | None = Field(
        None, description="By column; without, every column is mirrored under its usual key."
    )


class LaterBody(ActBody):
    """What is decided of columns that an approval has left for later."""

    actions: dict[str, ActionItem] = Field(
        min_length=1, description="By column, for deferred ones."
    )


_NARROWING = ("table", "project", "device")


class ClosingBody(MutationBody):
    """Which open reviews are closed together; what is left out does not narrow."""

    old_names = OLD_TABLE

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {"required": [name], "properties": {name: {"type": "string"}}}
                for name in _NARROWING
            ]
        }
    )

    state: Literal[ReviewState.QUEUED, ReviewState.IN_REVIEW] | None = None
    table: str | None = None
    project: str | None = None
    device: str | None = None
    note: str | None = Field(None, max_length=_LONGEST_NOTE)
    dry_run: bool = Field(False, description="Only tell how many there are.")

    @model_validator(mode="after")
    def _narrows(self) -> Self:
        if all(getattr(self, name) is None for name in _NARROWING):
            raise ValueError("name a table, a project or a device")
        return self

    @property
    def wanted(self) -> ReviewFilter:
        """The filter that the body stands for."""
        return ReviewFilter(self.state, self.table, self.project, self.device)


class ReviewsClosed(BaseModel):
    """How many reviews were closed, and how many that the body names are open now."""

    closed: int
    left: int


class TrialBody(MutationBody):
    """An approval that is only tried."""

    action_version: SeenVersion | None = None
    note: str | None = Field(None, max_length=_LONGEST_NOTE)
    actions: dict[str, ActionItem] | None = Field(None, description="As in an approval.")


@router.get("/v1/reviews", responses=documented(401, 404, 422, 429, 503))
def list_reviews(
    parts: PartsHere, _: PrincipalHere, query: Annotated[ReviewQuery, Query()]
) -> Page[ReviewItem]:
    """Reviews, newest first."""
    wanted = ReviewFilter(query.state, query.table, query.project, query.device)
    with parts.gateway.transaction() as tx:
        reviews, cursor = newest_first(
            query,
            lambda before, limit: tx.reviews.page(wanted, before=before, limit=limit),
            lambda review: review.review_id,
        )
    return Page(items=[_item(review) for review in reviews], next_cursor=cursor)


@router.get("/v1/reviews/{review_id}", responses=documented(401, 404, 422, 429, 503))
def show_review(parts: PartsHere, _: PrincipalHere, review_id: ReviewId) -> ReviewDetail:
    """One review with its evidence: what changed, who sends it, what waits, what would come."""
    with parts.gateway.transaction() as tx:
        return _with_evidence(tx, parts, review_id, None)


@router.post(
    "/v1/reviews/{review_id}/dry-run",
    response_model=ReviewDetail,
    responses=documented(401, 404, 409, 413, 415, 422, 429, 503),
    openapi_extra=described(TrialBody, required=True),
)
async def try_approval(mutation: MutationHere, review_id: ReviewId) -> Response:
    """The evidence under the given actions; nothing is changed.

    It takes the body of an approval, and refuses what an approval would.
    """

    def act(tx: Transaction, body: TrialBody) -> ReviewDetail:
        return _with_evidence(tx, mutation.parts, review_id, body)

    return await mutation.carry_out(TrialBody, act)


@router.post(
    "/v1/reviews/{review_id}/approve",
    response_model=ReviewItem,
    responses=documented(401, 404, 409, 413, 415, 422, 429, 503),
    openapi_extra=described(ApprovalBody, required=True),
)
async def approve_review(mutation: MutationHere, review_id: ReviewId) -> Response:
    """Approve a review, as it was when it was last seen.

    That binds the schema in the whole project and lets the lineages go on.
    """
    return await _carry_out(mutation, review_id, ReviewVerb.APPROVE, ApprovalBody)


@router.post(
    "/v1/reviews/{review_id}/decide",
    response_model=ReviewItem,
    responses=documented(401, 404, 409, 413, 415, 422, 429, 503),
    openapi_extra=described(LaterBody, required=True),
)
async def decide_columns(mutation: MutationHere, review_id: ReviewId) -> Response:
    """Decide columns that an approval has left for later.

    It holds from the next batch of the schema on; older values stay in `row_changes`.
    """
    return await _carry_out(mutation, review_id, ReviewVerb.DECIDE, LaterBody)


@router.post(
    "/v1/open-reviews/reject",
    response_model=ReviewsClosed,
    responses=documented(401, 404, 409, 413, 415, 422, 429, 503),
    openapi_extra=described(ClosingBody, required=True),
)
async def reject_reviews(mutation: MutationHere) -> Response:
    """Reject the open reviews of a table, project or device.

    A request closes 1,000 at most; `left` says how many are open then.
    """
    return await _close_all(mutation, ReviewVerb.REJECT)


@router.post(
    "/v1/open-reviews/abandon",
    response_model=ReviewsClosed,
    responses=documented(401, 404, 409, 413, 415, 422, 429, 503),
    openapi_extra=described(ClosingBody, required=True),
)
async def abandon_reviews(mutation: MutationHere) -> Response:
    """Abandon the open reviews of a table, project or device, as one rejects them."""
    return await _close_all(mutation, ReviewVerb.ABANDON)


@router.post(
    "/v1/reviews/{review_id}/{verb}",
    response_model=ReviewItem,
    responses=documented(401, 404, 409, 413, 415, 422, 429, 503),
    openapi_extra=described(ActBody, required=True),
)
async def act_on_review(mutation: MutationHere, review_id: ReviewId, verb: OtherVerb) -> Response:
    """Start, reject, abandon or reopen a review, as it was when it was last seen.

    After a rejection the lineage stays paused and its rows staged. An abandoned review keeps it
    paused only while the device sends that schema. To reopen makes a new review of a schema whose
    decision pauses it.
    """
    return await _carry_out(mutation, review_id, ReviewVerb(verb), ActBody)


async def _close_all(mutation: Mutation, verb: ReviewVerb) -> Response:
    def act(tx: Transaction, body: ClosingBody) -> ReviewsClosed:
        if body.dry_run:
            return ReviewsClosed(closed=0, left=tx.open_reviews.count(body.wanted))
        closing = Closing(verb, body.wanted, mutation.actor, body.note)
        with _refusals():
            done = mutation.parts.reviewing.close_all(tx, closing)
        return ReviewsClosed(**done._asdict())

    return await mutation.carry_out(ClosingBody, act)


async def _carry_out(
    mutation: Mutation, review_id: int, verb: ReviewVerb, model: type[ActBody]
) -> Response:
    def act(tx: Transaction, body: ActBody) -> ReviewItem:
        chosen = Act(review_id, body.action_version, mutation.actor, body.note)
        with _refusals():
            return _item(mutation.parts.reviewing.act(tx, verb, chosen, _actions(body)))

    return await mutation.carry_out(model, act)


@contextmanager
def _refusals() -> Iterator[None]:
    """What cannot be done, as the API says it."""
    try:
        yield
    except ReviewNotFound as error:
        raise NotFound(_sentence(error)) from error
    except ReviewConflict as error:
        raise Conflict(_sentence(error)) from error
    except UnfitActions as error:
        faults = [fault._asdict() for fault in error.faults]
        raise UnfitAnswer(_sentence(error), details={"faults": faults}) from error


def _sentence(error: Exception) -> str:
    text = str(error)
    return f"{text[0].upper()}{text[1:]}."


def _with_evidence(
    tx: Transaction, parts: Parts, review_id: int, trial: TrialBody | None
) -> ReviewDetail:
    actions = None if trial is None else _actions(trial)
    with _refusals():
        review = review_as_seen(tx, review_id, None if trial is None else trial.action_version)
        if trial is not None:
            parts.reviewing.refuse_approval(tx, review, actions)
        evidence = evidence_of(tx, review, parts.settings.warehouse, actions=actions)
    return ReviewDetail(**_item(review).model_dump(), evidence=msgspec.to_builtins(evidence))


def _actions(body: ActBody | TrialBody) -> Actions | None:
    if not isinstance(body, ApprovalBody | LaterBody | TrialBody) or body.actions is None:
        return None
    return {name: ColumnAction(item.action, item.key) for name, item in body.actions.items()}


def _item(review: Review) -> ReviewItem:
    known = review._asdict()
    del known["evidence"]
    if review.actions is not None:
        known["actions"] = {n: {"action": a.verb, "key": a.key} for n, a in review.actions.items()}
    if review.columns is not None:
        known["columns"] = [msgspec.to_builtins(column) for column in review.columns]
    return ReviewItem.model_validate(known | {"first_received_at": utc(review.first_received_at)})
