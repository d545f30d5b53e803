"""Which device speaks, and what kind of message it is: the topic alone says so."""

from typing import NamedTuple

SYNC_KINDS = {
    "sync/rows/batch": "rows",
    "sync/telemetry/batch": "telemetry",
    "sync/schema/observe": "observe",
    "sync/ingest/ack": "ack",
    "sync/ingest/request": "request",
}
_CONFIG_TYPES = ("operation", "ultrasonic", "network", "location", "firmware", "mqtt")
DEVICE_PATHS = ("telemetry", *(f"config/status/{name}" for name in _CONFIG_TYPES))


class Address(NamedTuple):
    """What a topic says: the kind of an inbound message, and its root where that is legal."""

    kind: str | None
    root: tuple[str, str] | None


NOWHERE = Address(kind=None, root=None)


def parse_topic(topic: str) -> Address:
    """Take a topic apart; a topic that no device may use is nowhere."""
    slug, _, rest = topic.partition("/")
    name, _, path = rest.partition("/")
    if any(mark in topic for mark in "+#\0") or not name:
        return NOWHERE
    if slug == "devices":
        return Address(kind="device" if path in DEVICE_PATHS else None, root=("", name))
    if slug == "cdc" or slug.startswith("$") or path.split("/")[0] != "sync":
        return NOWHERE
    return Address(kind=SYNC_KINDS.get(path), root=(slug, name))
