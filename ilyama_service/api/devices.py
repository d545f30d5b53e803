"""`/v1/devices`: the registry of devices, and where they belong."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated, NamedTuple, Self

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field, model_validator

from ilyama_protocol.moments import utc
from ilyama_protocol.names import MAX_NAME
from ilyama_resources.postgres import Transaction
from ilyama_resources.postgres.devices import DeviceEntry, NewDevice
from ilyama_service import devices
from ilyama_service.api.cursors import Page, PageQuery, decode_cursor, page_of
from ilyama_service.api.errors import Conflict, NotFound, documented
from ilyama_service.api.mutations import MutationBody, MutationHere, described, unfit_body
from ilyama_service.api.parts import PartsHere, PrincipalHere

router = APIRouter(tags=["devices"])

_LEVEL = r"^[^\u0000/+#]+$"
_SLUG = r"^$|^(?!(devices|cdc)$)[^\u0000/+#$][^\u0000/+#]*$"
_Name = Annotated[
    str | None,
    Field(
        min_length=1,
        max_length=MAX_NAME,
        json_schema_extra={"pattern": r"^[^\u0000]+$"},
    ),
]


class DevicePlace(NamedTuple):
    """Where a page of devices ended."""

    device_id: str


class DeviceQuery(PageQuery):
    """Which devices are asked for."""

    project: Annotated[str | None, Field(description="The id of a project.")] = None


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


class NewDeviceBody(MutationBody):
    """A device to be registered."""

    topic_slug: str = Field(
        description="The first level of its topics; it may be empty.",
        json_schema_extra={"pattern": _SLUG},
    )
    device_name: str = Field(
        min_length=1,
        description="The second level of its topics.",
        json_schema_extra={"pattern": _LEVEL},
    )
    device_id: str | None = Field(
        None,
        min_length=1,
        description="An id of its own, one level of a topic; without, it is slug and name.",
        json_schema_extra={"pattern": _LEVEL},
    )
    org_id: _Name = None
    project_id: _Name = None
    fleet_id: _Name = None
    firmware_version: _Name = None

    @property
    def device(self) -> NewDevice:
        """The device, with an id."""
        given = self.model_dump()
        given["device_id"] = self.device_id or devices.own_id(self.topic_slug, self.device_name)
        return NewDevice(**given)


class MoveBody(MutationBody):
    """Where it belongs now: null is nowhere, and what is left out stays."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"minProperties": 1})

    org_id: _Name = None
    project_id: _Name = None
    fleet_id: _Name = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("name an org_id, a project_id or a fleet_id")
        return self


@router.get("/v1/devices", responses=documented(401, 404, 422, 429, 503))
def list_devices(
    parts: PartsHere, _: PrincipalHere, query: Annotated[DeviceQuery, Query()]
) -> Page[DeviceItem]:
    """Devices in the order of their ids."""
    after = decode_cursor(query.cursor, DevicePlace)
    with parts.gateway.transaction() as tx:
        found = tx.devices.page(
            after=after and after.device_id, limit=query.limit + 1, project_id=query.project
        )
    entries, cursor = page_of(
        found, limit=query.limit, place=lambda entry: DevicePlace(entry.device_id)
    )
    return Page(items=[_item(entry) for entry in entries], next_cursor=cursor)


# A device's id has a slash in it.
@router.get("/v1/devices/{device_id:path}", responses=documented(401, 404, 422, 429, 503))
def show_device(parts: PartsHere, _: PrincipalHere, device_id: str) -> DeviceItem:
    """One device."""
    with parts.gateway.transaction() as tx, _refusals():
        return _item(devices.shown_device(tx, device_id))


@router.post(
    "/v1/devices",
    status_code=201,
    response_model=DeviceItem,
    responses=documented(401, 409, 413, 415, 422, 429, 503),
    openapi_extra=described(NewDeviceBody, required=True),
)
async def register_device(mutation: MutationHere) -> Response:
    """Register a device, before its first message or after it was rejected."""

    def act(tx: Transaction, body: NewDeviceBody) -> DeviceItem:
        with _refusals():
            return _item(devices.register(tx, body.device, actor=mutation.actor))

    return await mutation.carry_out(NewDeviceBody, act, status=201)


@router.post(
    "/v1/devices/{device_id:path}/move",
    response_model=DeviceItem,
    responses=documented(401, 404, 409, 413, 415, 422, 429, 503),
    openapi_extra=described(MoveBody, required=True),
)
async def move_device(mutation: MutationHere, device_id: str) -> Response:
    """Let a device belong to another organization, project or fleet, or to none.

    Its open reviews are decided in the new project from now on. The rows that it had in device
    tables follow it with the next run of these.
    """

    def act(tx: Transaction, body: MoveBody) -> DeviceItem:
        named = {name: getattr(body, name) for name in body.model_fields_set}
        desk, by = mutation.parts.reviewing, mutation.actor
        with _refusals():
            return _item(devices.move(tx, device_id, named, desk=desk, actor=by))

    return await mutation.carry_out(MoveBody, act)


@contextmanager
def _refusals() -> Iterator[None]:
    """What cannot be done, as the API says it."""
    try:
        yield
    except devices.NoSuchDevice as error:
        raise NotFound(str(error)) from error
    except (devices.Taken, devices.DrainUnderWay, devices.InPlace) as error:
        raise Conflict(str(error)) from error
    except devices.UnfitName as error:
        raise unfit_body(error, error.member) from error


def _item(entry: DeviceEntry) -> DeviceItem:
    clock = entry.next_received_at
    known = entry._asdict() | {"last_received_at": None if clock is None else utc(clock - 1)}
    return DeviceItem.model_validate(known)
