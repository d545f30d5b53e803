"""`/v1/rejections`: what was refused and why, and what becomes of it."""

from base64 import b64encode
from binascii import a2b_base64
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, datetime
from typing import Annotated, TypeVar
from uuid import UUID

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field, field_validator

from ilyama_resources.delta.reading import MessagePlace
from ilyama_resources.delta.rejected_bytes import RejectedMessage, rejected_messages
from ilyama_resources.delta.unreadable import Unreadable
from ilyama_resources.postgres import Transaction
from ilyama_resources.postgres.rejections import (
    GroupPlace,
    Rejection,
    RejectionFilter,
    RejectionGroup,
    RejectionPlace,
    RejectionState,
)
from ilyama_service import rejections
from ilyama_service.api.cursors import Page, PageQuery, decode_cursor, page_of
from ilyama_service.api.errors import BodyTooLarge, Conflict, NotFound, documented
from ilyama_service.api.mutations import Mutation, MutationBody, MutationHere, described
from ilyama_service.api.parts import Parts, PartsHere, PrincipalHere

router = APIRouter(tags=["rejections"])

_BASE64 = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
_REFUSALS = documented(401, 404, 409, 413, 415, 422, 429, 503)


class Sample(BaseModel):
    """The newest of a group."""

    rejection_id: UUID
    json_path: str
    message: str


class GroupItem(BaseModel):
    """Rejections with one code, of one table and firmware; an unknown table is the empty text."""

    code: str
    source_table: str
    firmware_version: str
    rejections: int
    devices: int
    first_received_at: datetime
    last_received_at: datetime
    states: dict[RejectionState, int]
    sample: Sample


class GroupQuery(PageQuery):
    """Which rejections are asked for."""

    code: str | None = None
    table: str | None = None
    firmware: str | None = None
    state: RejectionState | None = None
    device: Annotated[str | None, Field(description="The id of a device.")] = None

    @property
    def wanted(self) -> RejectionFilter:
        """The rejections that are asked for."""
        return RejectionFilter(self.code, self.table, self.firmware, self.state, self.device)


class RejectionItem(BaseModel):
    """One rejection, as the last look at it found; unknown words are the empty text."""

    rejection_id: UUID
    code: str
    json_path: str
    message: str
    action: str
    source_table: str
    device_id: str
    firmware_version: str
    topic: str
    segment_id: str
    position: int
    received_at: datetime
    drain_id: int
    day: date
    payload_bytes: int
    first_code: str = Field(description="What was wrong when the message first came.")
    state: RejectionState
    note: str | None
    replays: int
    last_outcome: str | None = Field(description="What became of the last replay.")
    last_drain_id: int | None
    changed_at: datetime


class ReplayItem(BaseModel):
    """One replay of a rejection."""

    attempt: int
    requested_at: datetime
    requested_by: str
    corrected: bool = Field(description="Whether it has other bytes than those stored.")
    segment_id: str | None = Field(description="Where its line of the ledger is, once it landed.")
    position: int | None
    drain_id: int | None = Field(description="The drain that decided it.")
    outcome: str | None
    code: str | None


class WholeRejection(RejectionItem):
    """One rejection with its replays and its bytes."""

    past_replays: list[ReplayItem]
    payload_base64: str | None = Field(
        description="Null when retention has dropped the bytes, or their file cannot be read."
    )
    payload_text: str | None = Field(description="The bytes as text, when they are UTF-8.")
    user_properties: dict[str, str] | None
    unreadable: list[str] = Field(description="Files below the warehouse that cannot be read.")


class ReplayBody(MutationBody):
    """Bytes to replay instead of those that are stored."""

    data_base64: str | None = Field(
        None, description="The corrected payload.", json_schema_extra={"pattern": _BASE64}
    )

    @field_validator("data_base64")
    @classmethod
    def _is_base64(cls, value: str | None) -> str | None:
        if value is not None:
            a2b_base64(value.encode(), strict_mode=True)
        return value


class GroupBody(MutationBody):
    """The group that is meant; what is left out does not narrow."""

    code: str
    table: str | None = None
    firmware: str | None = None
    device: str | None = None
    dry_run: bool = Field(False, description="Only count: how many are left to do it with.")

    @property
    def wanted(self) -> RejectionFilter:
        """The rejections that are meant."""
        return RejectionFilter(self.code, self.table, self.firmware, device_id=self.device)


class GroupReplayed(BaseModel):
    """How many replays were asked for, and how many of the group wait for another request."""

    replayed: int
    left: int


class GroupExplained(BaseModel):
    """How many were explained, and how many open ones of the group are not, by this note."""

    explained: int
    left: int


class GroupDiscarded(BaseModel):
    """How many were discarded, and how many of the group are open."""

    discarded: int
    left: int


class NoteBody(MutationBody):
    """Why it was rejected, or what is done about it."""

    note: str = Field(min_length=1, max_length=10_000)


class DiscardBody(MutationBody):
    """Why nobody will replay it."""

    note: str | None = Field(None, min_length=1, max_length=10_000)


class GroupNoteBody(NoteBody, GroupBody):
    """A group, and why it was rejected."""


class GroupDiscardBody(DiscardBody, GroupBody):
    """A group, and why nobody will replay it."""


Noted = TypeVar("Noted", NoteBody, DiscardBody)


@router.get("/v1/rejections", responses=documented(401, 404, 422, 429, 503))
def list_rejections(
    parts: PartsHere, _: PrincipalHere, query: Annotated[GroupQuery, Query()]
) -> Page[GroupItem]:
    """Groups in the order of code, table and firmware: one mistake of a firmware is one line."""
    after = decode_cursor(query.cursor, GroupPlace)
    with parts.gateway.transaction() as tx:
        found = tx.rejections.groups(query.wanted, after=after, limit=query.limit + 1)
    groups, cursor = page_of(found, limit=query.limit, place=lambda group: group.place)
    return Page(items=[_group(group) for group in groups], next_cursor=cursor)


@router.get("/v1/rejections/each", responses=documented(401, 404, 422, 429, 503))
def list_each_rejection(
    parts: PartsHere, _: PrincipalHere, query: Annotated[GroupQuery, Query()]
) -> Page[RejectionItem]:
    """Rejections one by one, newest first."""
    after = decode_cursor(query.cursor, RejectionPlace)
    with parts.gateway.transaction() as tx:
        found = tx.rejections.newest(query.wanted, after=after, limit=query.limit + 1)
    some, cursor = page_of(found, limit=query.limit, place=lambda rejection: rejection.place)
    return Page(items=[_item(rejection) for rejection in some], next_cursor=cursor)


# The other routes ask for a UUID, which no name of a route is.
@router.post(
    "/v1/rejections/replay",
    status_code=202,
    response_model=GroupReplayed,
    responses=_REFUSALS,
    openapi_extra=described(GroupBody, required=True),
)
async def replay_group(mutation: MutationHere) -> Response:
    """Replay every open rejection of a group; the next drains decide them."""

    def act(tx: Transaction, body: GroupBody) -> GroupReplayed:
        if body.dry_run:
            return GroupReplayed(replayed=0, left=tx.rejections.count_open(body.wanted))
        with _refusals():
            done, left = rejections.replay_group(tx, body.wanted, actor=mutation.actor)
        return GroupReplayed(replayed=done, left=left)

    return await mutation.carry_out(GroupBody, act, status=202)


@router.post(
    "/v1/rejections/explain",
    response_model=GroupExplained,
    responses=_REFUSALS,
    openapi_extra=described(GroupNoteBody, required=True),
)
async def explain_group(mutation: MutationHere) -> Response:
    """Give every open rejection of a group the same note."""

    def act(tx: Transaction, body: GroupNoteBody) -> GroupExplained:
        wanted, note = body.wanted, body.note
        if body.dry_run:
            left = tx.rejections.count_open(wanted, but_noted=note)
            return GroupExplained(explained=0, left=left)
        with _refusals():
            done, left = rejections.explain_group(tx, wanted, note=note, actor=mutation.actor)
        return GroupExplained(explained=done, left=left)

    return await mutation.carry_out(GroupNoteBody, act)


@router.post(
    "/v1/rejections/discard",
    response_model=GroupDiscarded,
    responses=_REFUSALS,
    openapi_extra=described(GroupDiscardBody, required=True),
)
async def discard_group(mutation: MutationHere) -> Response:
    """Mark every open rejection of a group as one that nobody will replay; nothing is deleted."""

    def act(tx: Transaction, body: GroupDiscardBody) -> GroupDiscarded:
        wanted, note = body.wanted, body.note
        if body.dry_run:
            return GroupDiscarded(discarded=0, left=tx.rejections.count_open(wanted))
        with _refusals():
            done, left = rejections.discard_group(tx, wanted, note=note, actor=mutation.actor)
        return GroupDiscarded(discarded=done, left=left)

    return await mutation.carry_out(GroupDiscardBody, act)


@router.get("/v1/rejections/{rejection_id:uuid}", responses=documented(401, 404, 422, 429, 503))
def show_rejection(parts: PartsHere, _: PrincipalHere, rejection_id: UUID) -> WholeRejection:
    """One rejection, with its bytes and its replays."""
    with parts.gateway.transaction() as tx:
        found = tx.rejections.find(str(rejection_id))
        past = tx.rejection_replays.of(str(rejection_id))
    if found is None:
        raise NotFound(f"There is no rejection {rejection_id}.")
    unreadable = Unreadable(parts.settings.warehouse)
    message = _message_of(parts, found, unreadable)
    return WholeRejection(
        **_item(found).model_dump(),
        past_replays=[ReplayItem.model_validate(replay._asdict()) for replay in past],
        payload_base64=None if message is None else b64encode(message.payload).decode(),
        payload_text=None if message is None else _text_of(message.payload),
        user_properties=None if message is None else message.user_properties,
        unreadable=unreadable.files,
    )


@router.post(
    "/v1/rejections/{rejection_id:uuid}/replay",
    status_code=202,
    response_model=RejectionItem,
    responses=_REFUSALS,
    openapi_extra=described(ReplayBody, required=False),
)
async def replay_one(mutation: MutationHere, rejection_id: UUID) -> Response:
    """Replay one rejection, with its own bytes or corrected ones; the next drain decides it."""

    def act(tx: Transaction, body: ReplayBody) -> RejectionItem:
        given = body.data_base64
        corrected = None if given is None else a2b_base64(given.encode())
        name, by = str(rejection_id), mutation.actor
        with _refusals():
            if corrected is not None:
                most = mutation.parts.settings.payload_max_bytes
                rejections.refuse_too_large(corrected, most=most)
            return _item(rejections.replay(tx, name, corrected=corrected, actor=by))

    return await mutation.carry_out(ReplayBody, act, status=202)


@router.post(
    "/v1/rejections/{rejection_id:uuid}/explain",
    response_model=RejectionItem,
    responses=_REFUSALS,
    openapi_extra=described(NoteBody, required=True),
)
async def explain(mutation: MutationHere, rejection_id: UUID) -> Response:
    """Add a note to a rejection; an earlier one is replaced."""
    return await _move_on(mutation, rejection_id, NoteBody, rejections.explain)


@router.post(
    "/v1/rejections/{rejection_id:uuid}/discard",
    response_model=RejectionItem,
    responses=_REFUSALS,
    openapi_extra=described(DiscardBody, required=False),
)
async def discard(mutation: MutationHere, rejection_id: UUID) -> Response:
    """Mark a rejection as one that nobody will replay; nothing is deleted."""
    return await _move_on(mutation, rejection_id, DiscardBody, rejections.discard)


async def _move_on(
    mutation: Mutation, rejection_id: UUID, model: type[Noted], deed: Callable[..., Rejection]
) -> Response:
    def act(tx: Transaction, body: Noted) -> RejectionItem:
        with _refusals():
            return _item(deed(tx, str(rejection_id), note=body.note, actor=mutation.actor))

    return await mutation.carry_out(model, act)


@contextmanager
def _refusals() -> Iterator[None]:
    """What cannot be done, as the API says it."""
    try:
        yield
    except rejections.NoSuchRejection as error:
        raise NotFound(str(error)) from error
    except rejections.WrongState as error:
        raise Conflict(str(error)) from error
    except rejections.TooLarge as error:
        raise BodyTooLarge(str(error)) from error


def _group(group: RejectionGroup) -> GroupItem:
    sample = {
        "rejection_id": group.sample_id,
        "json_path": group.sample_path,
        "message": group.sample_message,
    }
    return GroupItem.model_validate(group._asdict() | {"sample": sample})


def _item(rejection: Rejection) -> RejectionItem:
    return RejectionItem.model_validate(rejection._asdict())


def _message_of(parts: Parts, found: Rejection, unreadable: Unreadable) -> RejectedMessage | None:
    place = MessagePlace(found.segment_id, found.position, found.day, found.drain_id)
    return rejected_messages(parts.settings.warehouse, [place], unreadable).get(place.key)


def _text_of(payload: bytes) -> str | None:
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return None
