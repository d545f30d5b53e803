"""`GET /v1/gaps`: numbers of journals and telemetry that never came."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from ilyama_protocol.intake.sequences import SequenceKind
from ilyama_resources.postgres.sequences import ExplainedGap, GapFilter, GapPlace
from ilyama_service.api.cursors import Page, PageQuery, decode_cursor, page_of
from ilyama_service.api.errors import documented
from ilyama_service.api.parts import PartsHere, PrincipalHere

router = APIRouter(tags=["reading"])


class GapItem(BaseModel):
    """A range of numbers in which nothing was accepted; of a journal it is only a hint."""

    device_id: str
    kind: SequenceKind
    source_table: str | None = Field(description="Table whose batches are numbered.")
    journal_epoch: str | None = Field(description="Journal whose commits are numbered.")
    era: int
    first_missing: int
    last_missing: int
    opened_at: datetime
    opened_in: int = Field(description="Drain that showed the gap.")
    rejections: int = Field(description="Rejected batches that had numbers of it.")
    rejection_ids: list[str] = Field(description="The first of them.")


class GapQuery(PageQuery):
    """Which gaps are asked for."""

    device_id: str | None = None
    kind: SequenceKind | None = None
    source_table: str | None = None


@router.get("/v1/gaps", responses=documented(401, 404, 422, 429, 503))
def list_gaps(
    parts: PartsHere, _: PrincipalHere, query: Annotated[GapQuery, Query()]
) -> Page[GapItem]:
    """Gaps, by device, kind, sequence and number."""
    kind = SequenceKind.TELEMETRY if query.source_table is not None else query.kind
    wanted = GapFilter(query.device_id, kind, query.source_table)
    after = decode_cursor(query.cursor, GapPlace)
    with parts.gateway.transaction() as tx:
        found = tx.sequences.page(wanted, after=after, limit=query.limit + 1)
    gaps, cursor = page_of(found, limit=query.limit, place=_place)
    return Page(items=[_item(gap) for gap in gaps], next_cursor=cursor)


def _place(explained: ExplainedGap) -> GapPlace:
    gap = explained.gap
    return GapPlace(*gap.scope, gap.first_missing)


def _item(explained: ExplainedGap) -> GapItem:
    gap = explained.gap
    of_rows = gap.kind == SequenceKind.ROWS
    return GapItem.model_validate(
        gap._asdict()
        | {
            "source_table": None if of_rows else gap.name,
            "journal_epoch": gap.name if of_rows else None,
            "rejections": explained.rejections,
            "rejection_ids": explained.rejection_ids,
        }
    )
