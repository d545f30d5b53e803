"""`GET /v1/drains`: how far every intake has come."""

from datetime import date, datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel

from ilyama_resources.postgres.drains import Drain, DrainState
from ilyama_service.api.cursors import HIGHEST_ID, Page, PageQuery, newest_first
from ilyama_service.api.days import ArrivalDay
from ilyama_service.api.errors import NotFound, documented
from ilyama_service.api.parts import PartsHere, PrincipalHere

router = APIRouter(tags=["reading"])


class DrainItem(BaseModel):
    """One intake of a day's segments."""

    drain_id: int
    day: date
    origin: str
    state: DrainState
    attempts: int
    segments: int
    messages: int
    bytes: int
    note: str | None
    opened_at: datetime
    sealed_at: datetime | None
    closed_at: datetime | None


class DrainQuery(PageQuery):
    """Which drains are asked for."""

    state: DrainState | None = None
    day: ArrivalDay | None = None


@router.get("/v1/drains", responses=documented(401, 404, 422, 429, 503))
def list_drains(
    parts: PartsHere, _: PrincipalHere, query: Annotated[DrainQuery, Query()]
) -> Page[DrainItem]:
    """Drains, newest first."""
    with parts.gateway.transaction() as tx:
        drains, cursor = newest_first(
            query,
            lambda before, limit: tx.drains.page(
                state=query.state, day=query.day, before=before, limit=limit
            ),
            lambda drain: drain.drain_id,
        )
    return Page(items=[_item(drain) for drain in drains], next_cursor=cursor)


@router.get("/v1/drains/{drain_id}", responses=documented(401, 404, 422, 429, 503))
def show_drain(
    parts: PartsHere, _: PrincipalHere, drain_id: Annotated[int, Path(ge=1, le=HIGHEST_ID)]
) -> DrainItem:
    """One drain."""
    with parts.gateway.transaction() as tx:
        drain = tx.drains.find(drain_id)
    if drain is None:
        raise NotFound(f"There is no drain {drain_id}.")
    return _item(drain)


def _item(drain: Drain) -> DrainItem:
    return DrainItem.model_validate(drain._asdict())
