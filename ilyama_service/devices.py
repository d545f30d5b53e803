"""What a person may do with the registry of devices; each deed leaves a line in the audit.

DeviceRefused
├── NoSuchDevice    nobody is registered under this id
├── Taken           another device has this id, or sends under this root
├── DrainUnderWay   a drain may be giving the device another id
├── UnfitName       no topic, or no record, can hold this name
└── InPlace         the device belongs there already
"""

from __future__ import annotations

from collections.abc import Mapping

from ilyama_protocol.names import MAX_NAME, is_name, is_text
from ilyama_protocol.topics import MessageKind, parse_topic
from ilyama_resources.errors import PlatformError
from ilyama_resources.postgres import Transaction
from ilyama_resources.postgres.device_table_moves import Leaving
from ilyama_resources.postgres.devices import (
    LONGEST_ROOT_BYTES,
    DeviceEntry,
    DevicePlaces,
    NewDevice,
)
from ilyama_resources.postgres.drains import DrainState
from ilyama_resources.postgres.governance.moved_devices import DeviceMove
from ilyama_service.reviewing import Reviewing


class DeviceRefused(PlatformError):
    """What was asked for cannot be done."""


class NoSuchDevice(DeviceRefused):
    """There is no such device."""


class Taken(DeviceRefused):
    """Another device is there already."""


class DrainUnderWay(DeviceRefused):
    """It can be done when the drain is over."""


class UnfitName(DeviceRefused):
    """A device cannot be called so; `member` is what it would be called so."""

    def __init__(self, member: str, sentence: str) -> None:
        super().__init__(sentence)
        self.member = member


class InPlace(DeviceRefused):
    """Nothing would change."""


def own_id(topic_slug: str, device_name: str) -> str:
    """The id that a device has when nobody gives it another."""
    return f"{topic_slug}/{device_name}" if topic_slug else device_name


def register(tx: Transaction, device: NewDevice, *, actor: str) -> DeviceEntry:
    """Make a device known before its first message, or after it was rejected."""
    _refuse_unfit_root(device)
    _refuse_unfit_id(device)
    _refuse_unfit_words({name: getattr(device, name) for name in device._fields[3:]})
    _refuse_confusing_id(tx, device)
    if not tx.devices.register_one(device):
        raise Taken(_told_taken(tx, device))
    told = {name: value for name, value in device._asdict().items() if value is not None}
    resource = f"device/{device.device_id}"
    tx.audit.record(actor=actor, verb="register", resource=resource, new=told)
    return shown_device(tx, device.device_id)


def move(
    tx: Transaction,
    device_id: str,
    named: Mapping[str, str | None],
    *,
    desk: Reviewing,
    actor: str,
) -> DeviceEntry:
    """Let a device belong to the named organization, project or fleet; None is none of them."""
    _refuse_unfit_words(named)
    # A drain that closes locks the device before governance: in another order two could wait.
    before = tx.devices.locked_entry(device_id)
    if before is None:
        raise NoSuchDevice(f"There is no device {device_id}.")
    old = _places_of(before)
    places = old._replace(**named)
    if old == places:
        raise InPlace(f"Device {device_id} belongs there already.")
    tx.devices.move(device_id, places)
    if old.project_id != places.project_id:
        tx.device_table_moves.note(Leaving(before.device_id, old.project_id))
        desk.follow(tx, DeviceMove(device_id, old.project_id, places.project_id), actor=actor)
    resource, new = f"device/{device_id}", places._asdict()
    tx.audit.record(actor=actor, verb="move", resource=resource, old=old._asdict(), new=new)
    return shown_device(tx, device_id)


def shown_device(tx: Transaction, device_id: str) -> DeviceEntry:
    """A device as the registry has it."""
    entry = tx.devices.entry(device_id)
    if entry is None:
        raise NoSuchDevice(f"There is no device {device_id}.")
    return entry


def _places_of(device: DeviceEntry) -> DevicePlaces:
    """Whom a device belongs to."""
    return DevicePlaces(device.org_id, device.project_id, device.fleet_id)


def _refuse_unfit_root(device: NewDevice) -> None:
    slug, name = device.topic_slug, device.device_name
    if not _is_root(slug, name):
        raise UnfitName(
            "device_name" if _is_root(slug, "any") else "topic_slug",
            "Topic slug and device name are one level of a topic each, without +, # and U+0000; "
            "the name is not empty, the slug is not devices or cdc and does not begin with $.",
        )
    if len(f"{slug}{name}".encode()) > LONGEST_ROOT_BYTES:
        told = f"Topic slug and device name have {LONGEST_ROOT_BYTES:,} bytes at most."
        raise UnfitName("device_name", told)


def _is_root(slug: str, name: str) -> bool:
    """Whether a device can send below it."""
    address = parse_topic(f"{slug}/{name}/sync/rows/batch")
    is_read_so = (address.topic_slug, address.device_name) == (slug, name)
    return address.kind is MessageKind.ROWS and is_read_so and is_text(slug + name)


def _refuse_unfit_id(device: NewDevice) -> None:
    """An id with a slash is the own one of the device that sends under such a root."""
    own, given = own_id(device.topic_slug, device.device_name), device.device_id
    if given == own:
        return
    if parse_topic(f"devices/{given}/telemetry").device_name != given or not is_text(given):
        raise UnfitName(
            "device_id",
            f"The id of a device is {own}, or one level of a topic: not empty, without /, +, # "
            "and U+0000.",
        )
    if len(given.encode()) > LONGEST_ROOT_BYTES:
        raise UnfitName(
            "device_id", f"The id of a device has {LONGEST_ROOT_BYTES:,} bytes at most."
        )


def _refuse_confusing_id(tx: Transaction, device: NewDevice) -> None:
    """An id that was given stands for no other topics, and the device has had no other id."""
    root, own = (device.topic_slug, device.device_name), own_id(*device[1:3])
    if device.device_id == own:
        return
    # A drain that closes locks drains before devices: in another order two could wait.
    tx.drains.stand_still()
    holders = tx.devices.at([root, ("", device.device_id)])
    if root in holders:
        raise Taken(_told_taken(tx, device))
    if holders:
        raise Taken(f"Device {device.device_id} would be taken for the one at /{device.device_id}.")
    if tx.devices.named([own]) or tx.device_states.of([own]):
        raise Taken(f"The platform knows a device {own} already, which would be taken for it.")
    drain = tx.drains.unfinished()
    # One that is held finds its devices anew when it is released.
    if drain is not None and drain.state is not DrainState.HELD:
        raise DrainUnderWay("A drain is under way, which may know the device by now: try again.")


def _refuse_unfit_words(words: Mapping[str, str | None]) -> None:
    for member, word in words.items():
        if word is not None and not is_name(word):
            raise UnfitName(
                member,
                "Organization, project, fleet and firmware version are left out or have 1 to "
                f"{MAX_NAME} characters, without U+0000.",
            )


def _told_taken(tx: Transaction, device: NewDevice) -> str:
    root = (device.topic_slug, device.device_name)
    holder = tx.devices.at([root]).get(root)
    if holder is not None:
        return f"{'/'.join(root)} is registered already, as device {holder.device_id}."
    return f"There is a device {device.device_id} already."
