"""`GET /v1/ledger`: what became of everything that was received."""

from datetime import date
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from ilyama_protocol.intake.outcomes import Origin, Outcome
from ilyama_resources.postgres.ledger import LedgerFilter, LedgerPlace
from ilyama_service.api.cursors import Page, PageQuery, decode_cursor, page_of
from ilyama_service.api.days import ArrivalDay
from ilyama_service.api.errors import documented
from ilyama_service.api.parts import PartsHere, PrincipalHere

router = APIRouter(tags=["reading"])


class LedgerItem(BaseModel):
    """A sum over the ledger; an unknown device, table or kind is the empty text."""

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


class LedgerQuery(PageQuery):
    """Which sums are asked for."""

    day: ArrivalDay | None = None
    device: Annotated[str | None, Field(description="The id of a device.")] = None
    source_table: str | None = None
    kind: str | None = None
    outcome: Outcome | None = None
    origin: Annotated[Origin, Field(description="live, or the replay of a day.")] = Origin.LIVE


@router.get("/v1/ledger", responses=documented(401, 404, 422, 429, 503))
def list_ledger(
    parts: PartsHere, _: PrincipalHere, query: Annotated[LedgerQuery, Query()]
) -> LedgerPage:
    """Sums in the order of day, device, table, kind and outcome, and whether they balance."""
    wanted = LedgerFilter(
        query.origin, query.day, query.device, query.source_table, query.kind, query.outcome
    )
    after = decode_cursor(query.cursor, LedgerPlace)
    with parts.gateway.transaction() as tx:
        found = tx.ledger.page(wanted, after=after, limit=query.limit + 1)
        balance = tx.ledger.balance(wanted)
    sums, cursor = page_of(found, limit=query.limit, place=lambda found_sum: found_sum.place)
    return LedgerPage(
        items=[LedgerItem.model_validate(line._asdict()) for line in sums],
        next_cursor=cursor,
        balance=Balance(balanced=balance.balanced, **balance._asdict()),
    )
