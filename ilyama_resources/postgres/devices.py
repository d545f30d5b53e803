"""The registry of devices."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from sqlalchemy import BigInteger, Connection, Select, cast, func, select, tuple_, update
from sqlalchemy.dialects.postgresql import JSON, insert

from ilyama_protocol.names import is_name
from ilyama_resources.postgres.copying import shown
from ilyama_resources.postgres.pairs import these
from ilyama_resources.postgres.schema import DEVICE, DEVICE_STATE

Root = tuple[str, str]
"""(topic_slug, device_name): how a device is addressed."""

LONGEST_ROOT_BYTES = 2000
"""The registry is indexed by slug and device name; an index entry has no room for more."""


class RegisteredDevice(NamedTuple):
    """A device as the registry knows it."""

    device_id: str
    topic_slug: str
    device_name: str
    firmware_version: str | None
    project_id: str | None = None


class DeviceEntry(NamedTuple):
    """A device with everything the registry holds of it, and where its clock stands."""

    device_id: str
    topic_slug: str
    device_name: str
    org_id: str | None
    project_id: str | None
    fleet_id: str | None
    firmware_version: str | None
    auto: bool
    registered_at: datetime
    next_received_at: int | None


class NewDevice(NamedTuple):
    """A device that somebody registers."""

    device_id: str
    topic_slug: str
    device_name: str
    org_id: str | None = None
    project_id: str | None = None
    fleet_id: str | None = None
    firmware_version: str | None = None


class DevicePlaces(NamedTuple):
    """Whom a device belongs to; None is nobody."""

    org_id: str | None
    project_id: str | None
    fleet_id: str | None


_FIELDS = [DEVICE.c[name] for name in RegisteredDevice._fields]


class Devices:
    """Devices by their topic root, and by id."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def at(self, roots: Iterable[Root]) -> dict[Root, RegisteredDevice]:
        """The registered devices among the given roots."""
        root = tuple_(DEVICE.c.topic_slug, DEVICE.c.device_name)
        query = select(*_FIELDS).where(root.in_(these(roots)))
        devices = [RegisteredDevice(*row) for row in self._connection.execute(query)]
        return {(device.topic_slug, device.device_name): device for device in devices}

    def named(self, device_ids: Iterable[str]) -> dict[str, RegisteredDevice]:
        """The registered devices among the given ids."""
        query = select(*_FIELDS).where(DEVICE.c.device_id.in_([*map(shown, device_ids)]))
        devices = [RegisteredDevice(*row) for row in self._connection.execute(query)]
        return {device.device_id: device for device in devices}

    def projects(self, device_ids: Iterable[str]) -> dict[str, str | None]:
        """The project of each of the given devices that is registered."""
        query = select(DEVICE.c.device_id, DEVICE.c.project_id)
        rows = self._connection.execute(query.where(DEVICE.c.device_id.in_(list(device_ids))))
        return {device_id: project_id for device_id, project_id in rows}

    def page(
        self, *, after: str | None, limit: int, project_id: str | None = None
    ) -> list[DeviceEntry]:
        """The next devices after an id, in its order; of one project, when it is given."""
        query = _entries().order_by(DEVICE.c.device_id).limit(limit)
        if project_id is not None:
            query = query.where(DEVICE.c.project_id == shown(project_id))
        if after is not None:
            query = query.where(DEVICE.c.device_id > after)
        return [DeviceEntry(*row) for row in self._connection.execute(query)]

    def entry(self, device_id: str) -> DeviceEntry | None:
        """One device by its id."""
        query = _entries().where(DEVICE.c.device_id == shown(device_id))
        row = self._connection.execute(query).first()
        return None if row is None else DeviceEntry(*row)

    def register(self, devices: Iterable[RegisteredDevice], *, auto: bool) -> None:
        """Add devices that are not registered yet."""
        now = datetime.now(UTC)
        rows = [device._asdict() | {"auto": auto, "registered_at": now} for device in devices]
        if rows:
            self._connection.execute(insert(DEVICE).on_conflict_do_nothing(), rows)

    def register_one(self, device: NewDevice) -> bool:
        """Register a device with all that is told of it; False when its id or its root is taken."""
        now = datetime.now(UTC)
        values = device._asdict() | {"auto": False, "registered_at": now}
        statement = insert(DEVICE).values(values).on_conflict_do_nothing()
        return bool(self._connection.execute(statement).rowcount)

    def locked_entry(self, device_id: str) -> DeviceEntry | None:
        """One device, whose places nobody else can change until the transaction ends."""
        same = DEVICE.c.device_id == shown(device_id)
        self._connection.execute(select(DEVICE.c.device_id).where(same).with_for_update())
        return self.entry(device_id)

    def move(self, device_id: str, places: DevicePlaces) -> None:
        """Let a device belong to others."""
        moved = update(DEVICE).where(DEVICE.c.device_id == shown(device_id))
        self._connection.execute(moved.values(places._asdict()))

    def learn_firmware(self, versions: Iterable[tuple[str, str]]) -> None:
        """Note the firmware that devices have now; a drain that an older build sealed tells any."""
        told = [(shown(device_id), version) for device_id, version in versions if is_name(version)]
        if told:
            news = these(told).subquery("news")
            self._connection.execute(
                update(DEVICE)
                .values(firmware_version=news.c.second)
                .where(DEVICE.c.device_id == news.c.first)
            )

    def sample(self, size: int) -> list[str]:
        """Some devices, others each time."""
        query = select(DEVICE.c.device_id).order_by(func.random()).limit(size)
        return list(self._connection.scalars(query))


def _entries() -> Select[tuple[object, ...]]:
    fields = [DEVICE.c[name] for name in DeviceEntry._fields[:-1]]
    states = DEVICE.outerjoin(DEVICE_STATE, DEVICE_STATE.c.device_id == DEVICE.c.device_id)
    clock = cast(DEVICE_STATE.c.state, JSON)["next_received_at"].astext.cast(BigInteger)
    return select(*fields, clock).select_from(states)
