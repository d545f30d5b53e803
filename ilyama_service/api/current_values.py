"""`GET /v1/current-values`: the newest value of every key, as Postgres serves it."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from ilyama_resources.postgres.current_values import (
    CurrentValueFilter,
    CurrentValuePlace,
    ServedValue,
)
from ilyama_service.api.cursors import Page, PageQuery, decode_cursor, page_of
from ilyama_service.api.errors import documented
from ilyama_service.api.parts import PartsHere, PrincipalHere

A_LOG = "It has too many instances to be a state; its values are in the Delta table current_value."

router = APIRouter(tags=["reading"])


class Owner(BaseModel):
    """Whose value it is."""

    kind: str
    id: str


class CurrentValueItem(BaseModel):
    """A current value with what it rests on."""

    owner: Owner
    key: str
    instance: str
    provenance: str
    kind: Literal["metric", "state", "log"]
    value: float | str | None = Field(description="A number when `kind` is metric, else a text.")
    ts: datetime
    source: str
    policy: str
    contributors: list[dict[str, Any]]
    state: Literal["fresh", "stale", "conflicting"]
    updated_at: datetime


class NotServed(BaseModel):
    """A lineage whose current values are not served here."""

    device_id: str
    source_table: str
    reason: str


class CurrentValuePage(Page[CurrentValueItem]):
    """A part of the current values."""

    not_served: list[NotServed] = Field(description="Of the device that was asked for, if one was.")


class CurrentValueQuery(PageQuery):
    """Which values are asked for."""

    device: Annotated[str | None, Field(description="The id of a device.")] = None
    key: Annotated[str | None, Field(description="A whole key.")] = None
    prefix: Annotated[str | None, Field(description="The beginning of keys.")] = None
    instance: Annotated[str | None, Field(description="An instance; empty is one too.")] = None


@router.get("/v1/current-values", responses=documented(401, 404, 422, 429, 503))
def list_current_values(
    parts: PartsHere, _: PrincipalHere, query: Annotated[CurrentValueQuery, Query()]
) -> CurrentValuePage:
    """The current values in the order of device, key and instance."""
    wanted = CurrentValueFilter(query.device, query.key, query.prefix, query.instance)
    after = decode_cursor(query.cursor, CurrentValuePlace)
    with parts.gateway.transaction() as tx:
        found = tx.current_values.page(wanted, after=after, limit=query.limit + 1)
        tables = [] if query.device is None else tx.current_values.unserved_tables(query.device)
    values, cursor = page_of(found, limit=query.limit, place=lambda value: value.place)
    return CurrentValuePage(
        items=[_item(value) for value in values],
        next_cursor=cursor,
        not_served=[
            NotServed(device_id=query.device or "", source_table=table, reason=A_LOG)
            for table in tables
        ],
    )


def _item(value: ServedValue) -> CurrentValueItem:
    record = value.record._asdict()
    metric = record["kind"] == "metric"
    return CurrentValueItem.model_validate(
        record
        | {
            "owner": Owner(kind=value.record.owner_kind, id=value.record.owner_id),
            "value": value.record.value_double if metric else value.record.value_text,
            "contributors": msgspec.json.decode(value.record.contributors),
            "state": value.state,
        }
    )
