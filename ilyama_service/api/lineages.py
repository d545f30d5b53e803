"""`/v1/lineages`: which tables of which devices are paused, and what is staged of them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from ilyama_protocol.intake.lineage_rulings import PauseReason
from ilyama_resources.postgres import Transaction
from ilyama_resources.postgres.lineages import LineageEntry, LineageFilter, LineagePlace
from ilyama_service import lineages
from ilyama_service.api.cursors import Page, PageQuery, decode_cursor, page_of
from ilyama_service.api.errors import Conflict, NotFound, documented
from ilyama_service.api.mutations import Mutation, MutationBody, MutationHere, described
from ilyama_service.api.naming import OLD_LINEAGE
from ilyama_service.api.parts import PartsHere, PrincipalHere

router = APIRouter(tags=["lineages"])

_REFUSALS = documented(401, 404, 409, 413, 415, 422, 429, 503)


class LineageItem(BaseModel):
    """One table of one device."""

    device_id: str
    source_table: str
    state: str = Field(description="active, or paused when there is a reason.")
    pauses: list[PauseReason]
    paused_since: datetime | None
    staged_rows: int = Field(description="Rows that are set aside and not yet released.")
    staged_bytes: int


class LineageQuery(PageQuery):
    """Which lineages are asked for."""

    device: Annotated[str | None, Field(description="The id of a device.")] = None
    table: str | None = None
    paused: Annotated[bool | None, Field(description="Paused ones only, or active ones.")] = None


class LineageBody(MutationBody):
    """The lineage; names may hold anything, so they are no part of the path."""

    old_names = OLD_LINEAGE

    device: str = Field(min_length=1, description="The id of a device.")
    table: str = Field(min_length=1, description="One of its tables.")

    @property
    def place(self) -> LineagePlace:
        """The lineage's name."""
        return LineagePlace(self.device, self.table)


class NothingMore(MutationBody):
    """Nothing needs to be said."""


class Retried(BaseModel):
    """How many rows are decided anew; a message that cannot be read counts none."""

    rows: int


class PauseBody(LineageBody):
    """The lineage, and why it is paused."""

    note: str | None = Field(None, min_length=1, max_length=10_000)


@router.get("/v1/lineages", responses=documented(401, 404, 422, 429, 503))
def list_lineages(
    parts: PartsHere, _: PrincipalHere, query: Annotated[LineageQuery, Query()]
) -> Page[LineageItem]:
    """Lineages in the order of device and table."""
    wanted = LineageFilter(query.device, query.table, query.paused)
    after = decode_cursor(query.cursor, LineagePlace)
    with parts.gateway.transaction() as tx:
        found = tx.lineages.page(wanted, after=after, limit=query.limit + 1)
    entries, cursor = page_of(found, limit=query.limit, place=lambda entry: entry.place)
    return Page(items=[_item(entry) for entry in entries], next_cursor=cursor)


def _mutating(body: type[LineageBody]) -> dict[str, object]:
    return {
        "response_model": LineageItem,
        "responses": _REFUSALS,
        "openapi_extra": described(body, required=True),
    }


@router.post("/v1/lineages/pause", **_mutating(PauseBody))  # type: ignore[arg-type]
async def pause(mutation: MutationHere) -> Response:
    """Stage what comes of a lineage from the next drain on."""

    def act(tx: Transaction, body: PauseBody) -> LineageItem:
        with _refusals():
            return _item(lineages.pause(tx, body.place, note=body.note, actor=mutation.actor))

    return await mutation.carry_out(PauseBody, act)


@router.post("/v1/lineages/resume", **_mutating(LineageBody))  # type: ignore[arg-type]
async def resume(mutation: MutationHere) -> Response:
    """Take the operator's pause away."""
    return await _carry_out(mutation, lineages.resume)


@router.post("/v1/lineages/reset-materialization", **_mutating(LineageBody))  # type: ignore[arg-type]
async def reset_materialization(mutation: MutationHere) -> Response:
    """Close an open circuit, and try the rows again that could not be materialized."""
    return await _carry_out(mutation, lineages.reset_materialization)


@router.post("/v1/lineages/reset-sequence", **_mutating(LineageBody))  # type: ignore[arg-type]
async def reset_sequence(mutation: MutationHere) -> Response:
    """Let the numbers of telemetry batches begin anew with the device's next drain."""
    return await _carry_out(mutation, lineages.reset_sequence)


@router.post(
    "/v1/lineages/retry-errors",
    response_model=Retried,
    responses=_REFUSALS,
    openapi_extra=described(NothingMore, required=False),
)
async def retry_errors(mutation: MutationHere) -> Response:
    """Decide every message anew that broke the engine."""

    def act(tx: Transaction, _: NothingMore) -> Retried:
        with _refusals():
            return Retried(rows=lineages.retry_errors(tx, actor=mutation.actor))

    return await mutation.carry_out(NothingMore, act)


async def _carry_out(mutation: Mutation, deed: Callable[..., LineageEntry]) -> Response:
    def act(tx: Transaction, body: LineageBody) -> LineageItem:
        with _refusals():
            return _item(deed(tx, body.place, actor=mutation.actor))

    return await mutation.carry_out(LineageBody, act)


@contextmanager
def _refusals() -> Iterator[None]:
    """What cannot be done, as the API says it."""
    try:
        yield
    except (lineages.NoSuchDevice, lineages.NoSuchTable) as error:
        raise NotFound(str(error)) from error
    except lineages.WrongState as error:
        raise Conflict(str(error)) from error


def _item(entry: LineageEntry) -> LineageItem:
    state = "paused" if entry.pauses else "active"
    return LineageItem.model_validate(entry._asdict() | {"state": state})
