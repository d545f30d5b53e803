"""`GET /v1/gaps`: numbers of journals and telemetry that never came."""

from datetime import datetime
from typing import Annotated, Self

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field, model_validator

from ilyama_protocol.intake.sequences import SequenceKind
from ilyama_resources.postgres.gaps import ExplainedGap, GapFilter, GapPlace
from ilyama_service.api.cursors import Page, PageQuery, decode_cursor, page_of
from ilyama_service.api.errors import documented
from ilyama_service.api.naming import OLD_LINEAGE
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
    rejections: int = Field(
        description="Rejected batches that had numbers of it and were not accepted since; of a "
        "journal the 1,000 that begin last before its end are looked at."
    )
    discarded: int = Field(description="How many of these somebody discarded.")
    rejection_ids: list[str] = Field(description="The first of them.")


class GapQuery(PageQuery):
    """Which gaps are asked for."""

    old_names = OLD_LINEAGE

    device: Annotated[str | None, Field(description="The id of a device.")] = None
    table: Annotated[str | None, Field(description="A table whose batches are numbered.")] = None
    kind: SequenceKind | None = None

    @model_validator(mode="after")
    def _is_one_question(self) -> Self:
        if self.kind is SequenceKind.ROWS and self.table is not None:
            raise ValueError("a journal is of all tables: gaps of kind `rows` have no table")
        return self

    @property
    def filter(self) -> GapFilter:
        """What is asked for; only telemetry has a table."""
        kind = self.kind if self.table is None else SequenceKind.TELEMETRY
        return GapFilter(self.device, kind, self.table)


@router.get("/v1/gaps", responses=documented(401, 404, 422, 429, 503))
def list_gaps(
    parts: PartsHere, _: PrincipalHere, query: Annotated[GapQuery, Query()]
) -> Page[GapItem]:
    """Gaps, by device, kind, sequence and number."""
    after = decode_cursor(query.cursor, GapPlace)
    with parts.gateway.transaction() as tx:
        found = tx.gaps.page(query.filter, after=after, limit=query.limit + 1)
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
            "discarded": explained.discarded,
            "rejection_ids": explained.rejection_ids,
        }
    )
