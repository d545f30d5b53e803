"""`GET /v1/audit`: who did what to which resource."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from ilyama_resources.postgres.audit import AuditEntry, AuditFilter
from ilyama_service.api.cursors import Page, PageQuery, newest_first
from ilyama_service.api.errors import documented
from ilyama_service.api.parts import PartsHere, PrincipalHere

router = APIRouter(tags=["reading"])


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
    wanted = AuditFilter(query.resource, query.actor, query.verb)
    with parts.gateway.transaction() as tx:
        entries, cursor = newest_first(
            query,
            lambda before, limit: tx.audit.page(wanted, before=before, limit=limit),
            lambda entry: entry.audit_id,
        )
    return Page(items=[_item(entry) for entry in entries], next_cursor=cursor)


def _item(entry: AuditEntry) -> AuditItem:
    return AuditItem.model_validate(entry._asdict())
