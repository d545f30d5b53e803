"""Who sent the messages of a drain, and what the platform remembers of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ilyama_assets.drains.governing import pin_rules
from ilyama_assets.drains.orders import DeviceOrder
from ilyama_protocol.governance.policies import Policy
from ilyama_protocol.governance.rules import ProjectRules
from ilyama_protocol.names import known_firmware
from ilyama_protocol.topics import DEVICES_ROOT, Address, parse_topic
from ilyama_resources.landing.segment_files import read_topics
from ilyama_resources.postgres import Gateway, Transaction
from ilyama_resources.postgres.devices import LONGEST_ROOT_BYTES, RegisteredDevice, Root
from ilyama_resources.postgres.sequence_resets import SequenceReset
from ilyama_resources.postgres.staged_backlog import StagedSum


class Plan(NamedTuple):
    """The senders of a drain, and the devices it meets for the first time."""

    devices: list[DeviceOrder]
    newcomers: list[RegisteredDevice]
    released: Sequence[StagedSum] = ()
    """What was staged and is to be released."""
    projects: Mapping[str, ProjectRules] = {}
    """What is decided in the projects of the devices."""
    resets: Sequence[SequenceReset] = ()
    """What was asked for of the numbers of telemetry batches."""


def plan_drain(
    gateway: Gateway, segments: Iterable[Path], *, auto_register: bool, policy: Policy
) -> Plan:
    """Find the sender of every topic, and its state."""
    sizes: dict[str, int] = {}
    for path in segments:
        for topic, size in read_topics(path):
            sizes[topic] = sizes.get(topic, 0) + size
    addresses = [parse_topic(topic) for topic in sizes]
    with gateway.transaction() as tx:
        known = _registered(tx, addresses)
        newcomers = _newcomers(tx, addresses, known) if auto_register else {}
        devices = _orders(addresses, sizes, known | newcomers)
        rules = pin_rules(tx, devices, policy)
        resets = _pin(tx, devices)
    new = list(dict.fromkeys(newcomers.values()))
    return Plan(devices, new, projects=rules, resets=resets)


def plan_release(gateway: Gateway, *, at_most_bytes: int, policy: Policy) -> Plan:
    """Choose staged rows that nothing holds, the oldest first, and find what is known of them."""
    orders: dict[str, DeviceOrder] = {}
    with gateway.transaction() as tx:
        released = tx.backlog.releasable(at_most_bytes=at_most_bytes)
        known = tx.devices.named({found.device_id for found in released})
        for found in released:
            order = orders.setdefault(
                found.device_id,
                DeviceOrder(found.device_id or None, [], _firmware(known.get(found.device_id))),
            )
            order.released.append(found)
            order.payload_bytes += found.bytes
        rules = pin_rules(tx, orders.values(), policy)
        resets = _pin(tx, orders.values())
    return Plan(list(orders.values()), [], released, rules, resets)


def _pin(tx: Transaction, devices: Collection[DeviceOrder]) -> list[SequenceReset]:
    """Give each device its state, and what was asked for of its numbers, as they are now."""
    known = [device.device_id for device in devices if device.device_id is not None]
    states, resets = tx.device_states.of(known), tx.sequence_resets.of_devices(known)
    for device in devices:
        device.state = states.get(device.device_id or "")
        device.resets = [r.source_table for r in resets if r.device_id == device.device_id]
    return resets


def _root(address: Address) -> Root | None:
    slug, name = address.topic_slug, address.device_name
    if slug is None or name is None or len(f"{slug}{name}".encode()) > LONGEST_ROOT_BYTES:
        return None
    return slug, name


def _registered(tx: Transaction, addresses: Iterable[Address]) -> dict[str, RegisteredDevice]:
    """The registered devices by topic; `devices/{id}` names a device by its id before its root."""
    roots = {address.topic: root for address in addresses if (root := _root(address)) is not None}
    at_root = tx.devices.at(set(roots.values()))
    known = {topic: at_root[root] for topic, root in roots.items() if root in at_root}
    direct = {topic: name for topic, (_, name) in roots.items() if _names_by_id(topic)}
    by_id = tx.devices.named(set(direct.values()))
    return known | {topic: by_id[name] for topic, name in direct.items() if name in by_id}


def _names_by_id(topic: str) -> bool:
    return topic.startswith(f"{DEVICES_ROOT}/")


def _newcomers(
    tx: Transaction, addresses: Iterable[Address], known: Mapping[str, RegisteredDevice]
) -> dict[str, RegisteredDevice]:
    """Those who are met for the first time, by topic; nobody gets the id of another device."""
    new = {
        address.topic: RegisteredDevice(_own_name(root), *root, None)
        for address in addresses
        if address.topic not in known and (root := _root(address)) is not None
    }
    taken = tx.devices.named({device.device_id for device in new.values()})
    return {topic: device for topic, device in new.items() if device.device_id not in taken}


def _own_name(root: Root) -> str:
    slug, name = root
    return f"{slug}/{name}" if slug else name


def _firmware(device: RegisteredDevice | None) -> str:
    return known_firmware(device.firmware_version if device else None)


def _orders(
    addresses: Iterable[Address], sizes: dict[str, int], known: Mapping[str, RegisteredDevice]
) -> list[DeviceOrder]:
    orders: dict[str | None, DeviceOrder] = {}
    for address in addresses:
        device = known.get(address.topic)
        device_id = None if device is None else device.device_id
        order = orders.setdefault(device_id, DeviceOrder(device_id, [], _firmware(device)))
        order.topics.append(address.topic)
        order.payload_bytes += sizes[address.topic]
    return list(orders.values())
