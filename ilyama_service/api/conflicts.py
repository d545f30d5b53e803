"""`GET /v1/conflicts`: other content under keys that were taken."""

from datetime import date
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from ilyama_protocol.intake.conflicts import ConflictKind
from ilyama_resources.delta.key_conflicts import (
    MOST_SHOWN,
    ConflictFilter,
    ConflictPlace,
    conflicts_page,
)
from ilyama_service.api.cursors import Page, PageQuery, decode_cursor, page_of
from ilyama_service.api.days import ArrivalDay
from ilyama_service.api.errors import documented
from ilyama_service.api.parts import PartsHere, PrincipalHere

router = APIRouter(tags=["reading"])


class ConflictItem(BaseModel):
    """Another content under a key that was taken, and how often it came on a day."""

    day: date
    device_id: str
    source_table: str
    kind: ConflictKind
    key: str = Field(description="The key as canonical JSON.")
    first: str = Field(description=f"Content that stays; its first {MOST_SHOWN:,} characters.")
    other: str = Field(description=f"Content that came; its first {MOST_SHOWN:,} characters.")
    arrivals: int = Field(description="How often it came, over all drains of the day.")


class ConflictPage(Page[ConflictItem]):
    """A part of the list, from all files that could be read."""

    unreadable: list[str] = Field(description="Files below the warehouse that cannot be read.")


class ConflictQuery(PageQuery):
    """Which conflicts are asked for."""

    device: Annotated[str | None, Field(description="The id of a device.")] = None
    table: Annotated[str | None, Field(description="A table on the device.")] = None
    kind: ConflictKind | None = None
    day: ArrivalDay | None = None


@router.get("/v1/conflicts", responses=documented(401, 404, 422, 429, 503))
def list_conflicts(
    parts: PartsHere, _: PrincipalHere, query: Annotated[ConflictQuery, Query()]
) -> ConflictPage:
    """Key conflicts, newest day first, then by device, table, kind and key."""
    wanted = ConflictFilter(query.device, query.table, query.kind, query.day)
    after = decode_cursor(query.cursor, ConflictPlace, may_hold_nul=True)
    warehouse = parts.settings.warehouse
    found = conflicts_page(warehouse, wanted, after=after, limit=query.limit + 1)
    listed, cursor = page_of(
        found.conflicts, limit=query.limit, place=lambda conflict: conflict.place
    )
    items = [ConflictItem.model_validate(conflict.told()) for conflict in listed]
    return ConflictPage(items=items, next_cursor=cursor, unreadable=found.unreadable)
