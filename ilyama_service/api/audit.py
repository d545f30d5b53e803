"""`GET /v1/audit`: who did what to which resource."""

from datetime import datetime
from typing import Annotated, Any, NamedTuple

import msgspec
from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from ilyama_resources.postgres.audit import AuditEntry, AuditFilter
from ilyama_service.api.cursors import HIGHEST_ID, Page, PageQuery, decode_cursor, page_of
from ilyama_service.api.errors import documented
from ilyama_service.api.parts import PartsHere, PrincipalHere

router = APIRouter(tags=["reading"])


class AuditPlace(NamedTuple):
    """Where a page of the audit log ended."""

    audit_id: Annotated[int, msgspec.Meta(ge=1, le=HIGHEST_ID)]


class AuditItem(BaseModel):
    """What an operator did."""

    audit_id: int
    at: datetime
    actor: str
    verb: str
    resource: str = Field(description="Its kind and its name, as in `review/7`.")
    old: Any = Field(description="What it was like before; null when that is not told.")
    new: Any = Field(description="What it was like after, and what was said to it.")


class AuditQuery(PageQuery):
    """Which lines are asked for."""

    resource: str | None = None
    actor: str | None = None
    verb: str | None = None


@router.get("/v1/audit", responses=documented(401, 404, 422, 429, 503))
def list_audit(
    parts: PartsHere, _: PrincipalHere, query: Annotated[AuditQuery, Query()]
) -> Page[AuditItem]:
    """The audit log, newest first."""
    before = decode_cursor(query.cursor, AuditPlace)
    wanted = AuditFilter(query.resource, query.actor, query.verb)
    with parts.gateway.transaction() as tx:
        found = tx.audit.page(
            wanted, before=None if before is None else before.audit_id, limit=query.limit + 1
        )
    entries, cursor = page_of(
        found, limit=query.limit, place=lambda entry: AuditPlace(entry.audit_id)
    )
    return Page(items=[_item(entry) for entry in entries], next_cursor=cursor)


def _item(entry: AuditEntry) -> AuditItem:
    return AuditItem.model_validate(entry._asdict())
