"""`GET /v1/ledger`: what became of everything that was received."""

from datetime import date
from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from ilyama_protocol.intake.outcomes import Origin, Outcome
from ilyama_resources.delta.segment_ledger import segment_balance, segment_ledger
from ilyama_resources.delta.unreadable import Unreadable
from ilyama_resources.postgres.ledger import (
    LedgerBalance,
    LedgerFilter,
    LedgerPlace,
    LedgerSum,
)
from ilyama_service.api.cursors import Page, PageQuery, decode_cursor, page_of
from ilyama_service.api.days import ArrivalDay
from ilyama_service.api.errors import documented
from ilyama_service.api.naming import OLD_TABLE
from ilyama_service.api.parts import Parts, PartsHere, PrincipalHere

router = APIRouter(tags=["reading"])
_ORIGINS: Final = (
    "`live` for what came; `day` for replayed days, `rejection` for replayed rejections, and "
    "`staged` for what was set aside and released."
)


class LedgerItem(BaseModel):
    """A sum over the ledger; an unknown device, table or kind is the empty text."""

    segment_id: str | None = Field(None, description="The segment that was asked for.")
    day: date
    device_id: str
    source_table: str
    kind: str
    outcome: str
    messages: int
    rows_received: int
    rows_new: int
    rows_duplicate: int
    rows_conflict: int
    rows_below_floor: int
    rows_rejected: int
    rows_staged: int


class Balance(BaseModel):
    """Both sides of the books, over everything that was asked for."""

    balanced: bool
    messages_received: int | None = Field(
        description="Counted on the segments; null when they cannot be told apart so finely."
    )
    messages: int
    rows_received: int
    rows_new: int
    rows_duplicate: int
    rows_rejected: int
    rows_staged: int


class LedgerPage(Page[LedgerItem]):
    """A part of the sums."""

    balance: Balance
    unreadable: list[str] = Field(
        description="Files below the warehouse that cannot be read; only of one segment."
    )


class LedgerQuery(PageQuery):
    """Which sums are asked for."""

    old_names = OLD_TABLE

    segment: Annotated[UUID | None, Field(description="The id of one landed segment.")] = None
    day: ArrivalDay | None = None
    device: Annotated[str | None, Field(description="The id of a device.")] = None
    table: str | None = None
    kind: str | None = None
    outcome: Outcome | None = None
    origin: Annotated[Origin, Field(description=_ORIGINS)] = Origin.LIVE


@router.get("/v1/ledger", responses=documented(401, 404, 422, 429, 503))
def list_ledger(
    parts: PartsHere, _: PrincipalHere, query: Annotated[LedgerQuery, Query()]
) -> LedgerPage:
    """Sums in the order of day, device, table, kind and outcome, and whether they balance."""
    wanted = LedgerFilter(
        query.origin, query.day, query.device, query.table, query.kind, query.outcome
    )
    after = decode_cursor(query.cursor, LedgerPlace)
    segment_id = None if query.segment is None else str(query.segment)
    unreadable = Unreadable(parts.settings.warehouse)
    if segment_id is None:
        with parts.gateway.transaction() as tx:
            found = tx.ledger.page(wanted, after=after, limit=query.limit + 1)
            balance = tx.ledger.balance(wanted)
    else:
        every, balance = _of_segment(parts, segment_id, wanted, unreadable)
        found = [line for line in every if after is None or line.place > after]
    sums, cursor = page_of(found, limit=query.limit, place=lambda found_sum: found_sum.place)
    return LedgerPage(
        items=[
            LedgerItem.model_validate(line._asdict() | {"segment_id": segment_id}) for line in sums
        ],
        next_cursor=cursor,
        balance=Balance(balanced=balance.balanced, **balance._asdict()),
        unreadable=unreadable.files,
    )


def _of_segment(
    parts: Parts, segment_id: str, wanted: LedgerFilter, unreadable: Unreadable
) -> tuple[list[LedgerSum], LedgerBalance]:
    # The records first: what they call drained is in the table for certain.
    with parts.gateway.transaction() as tx:
        landed = tx.segments.landed(segment_id, origin=wanted.origin)
    sums = segment_ledger(parts.settings.warehouse, segment_id, wanted, unreadable)
    return sums, segment_balance(sums, wanted, landed)
