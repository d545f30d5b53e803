"""`GET /v1/devices`: the registry of devices."""

from datetime import datetime
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from ilyama_protocol.intake.state import decode_state
from ilyama_protocol.moments import utc
from ilyama_resources.postgres.devices import DeviceEntry
from ilyama_service.api.cursors import Page, PageQuery, decode_cursor, page_of
from ilyama_service.api.errors import NotFound, documented
from ilyama_service.api.parts import PartsHere, PrincipalHere

router = APIRouter(tags=["reading"])


class DevicePlace(NamedTuple):
    """Where a page of devices ended."""

    device_id: str


class DeviceItem(BaseModel):
    """A device as the registry knows it."""

    device_id: str
    topic_slug: str
    device_name: str
    org_id: str | None
    project_id: str | None
    fleet_id: str | None
    firmware_version: str | None
    auto: bool = Field(description="Whether its first message registered it.")
    registered_at: datetime
    last_received_at: datetime | None = Field(
        description="The device's clock on the platform after its last drained message: "
        "when that arrived, and the few milliseconds that its rows took up."
    )


@router.get("/v1/devices", responses=documented(401, 404, 422, 429, 503))
def list_devices(
    parts: PartsHere, _: PrincipalHere, query: Annotated[PageQuery, Query()]
) -> Page[DeviceItem]:
    """Devices in the order of their ids."""
    after = decode_cursor(query.cursor, DevicePlace)
    with parts.gateway.transaction() as tx:
        found = tx.devices.page(after=after and after.device_id, limit=query.limit + 1)
    devices, cursor = page_of(
        found, limit=query.limit, place=lambda device: DevicePlace(device.device_id)
    )
    return Page(items=[_item(device) for device in devices], next_cursor=cursor)


# A device's id has a slash in it.
@router.get("/v1/devices/{device_id:path}", responses=documented(401, 404, 422, 429, 503))
def show_device(parts: PartsHere, _: PrincipalHere, device_id: str) -> DeviceItem:
    """One device."""
    with parts.gateway.transaction() as tx:
        entry = tx.devices.entry(device_id)
    if entry is None:
        raise NotFound(f"There is no device {device_id}.")
    return _item(entry)


def _item(entry: DeviceEntry) -> DeviceItem:
    clock = None if entry.state is None else decode_state(entry.state.encode()).next_received_at
    known = entry._asdict() | {"last_received_at": None if clock is None else utc(clock - 1)}
    return DeviceItem.model_validate(known)
