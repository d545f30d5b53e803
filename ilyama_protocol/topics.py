"""Topics: which device a message comes from, and what kind of message it is."""

from dataclasses import dataclass
from enum import StrEnum


class MessageKind(StrEnum):
    """What an inbound topic carries."""

    ROWS = "rows"
    TELEMETRY = "telemetry"
    OBSERVE = "observe"
    ACK = "ack"
    REQUEST = "request"
    DEVICE = "device"


@dataclass(frozen=True, slots=True)
class Address:
    """A topic taken apart.

    Attributes:
        topic: The topic as it was published.
        kind: What it carries, or None when it is not an inbound topic.
        topic_slug: First level of the device's root, or None when the root is not a legal one.
        device_name: Second level of the device's root, or None likewise.
    """

    topic: str
    kind: MessageKind | None
    topic_slug: str | None
    device_name: str | None

    @property
    def own_device_id(self) -> str | None:
        """The id of a device that registers itself; None when the root is not a legal one."""
        if self.device_name is None:
            return None
        return f"{self.topic_slug}/{self.device_name}" if self.topic_slug else self.device_name


DEVICES_ROOT = "devices"
RESERVED_SLUGS = frozenset({DEVICES_ROOT, "cdc"})
FORBIDDEN_CHARACTERS = frozenset("+#\0")

SYNC_PATHS = {
    "sync/rows/batch": MessageKind.ROWS,
    "sync/telemetry/batch": MessageKind.TELEMETRY,
    "sync/schema/observe": MessageKind.OBSERVE,
    "sync/ingest/ack": MessageKind.ACK,
    "sync/ingest/request": MessageKind.REQUEST,
}
CONTROL_PATH = "sync/ingest/control"
"""Where the platform publishes and devices listen."""
CONFIG_STATUS_TYPES = ("operation", "ultrasonic", "network", "location", "firmware", "mqtt")
DEVICE_PATHS = frozenset({"telemetry", *(f"config/status/{name}" for name in CONFIG_STATUS_TYPES)})
INBOUND_FILTERS = (
    *(f"+/+/{path}" for path in SYNC_PATHS),
    *(f"{DEVICES_ROOT}/+/{path}" for path in sorted(DEVICE_PATHS)),
)
"""What the platform subscribes to: everything that a device may send, and no control of its own."""


def kind_of(relative_path: str) -> MessageKind | None:
    """Return what the part of a topic after `{topic_slug}/{device_name}/` carries."""
    return SYNC_PATHS.get(relative_path)


def kind_on(topic: str) -> MessageKind | None:
    """Return what a topic carries: a full one, or the part after a device's root."""
    return kind_of(topic) or parse_topic(topic).kind


def parse_topic(topic: str) -> Address:
    """Take a topic apart; what is not an inbound topic has no kind."""
    if not FORBIDDEN_CHARACTERS.isdisjoint(topic):
        return Address(topic, None, None, None)
    slug, _, below_slug = topic.partition("/")
    device_name, _, relative_path = below_slug.partition("/")
    if slug == DEVICES_ROOT:
        return _under_devices(topic, device_name, relative_path)
    if _is_legal_root(slug, device_name) and relative_path.split("/", 1)[0] == "sync":
        return Address(topic, kind_of(relative_path), slug, device_name)
    return Address(topic, None, None, None)


def trouble_with(topic: str | None) -> str:
    """What is wrong with a topic on which nothing is received, and where to publish instead."""
    trouble = None if topic is None else _trouble_with(topic)
    where = _INBOUND if topic is None or not _is_below_devices(topic) else _BELOW_DEVICES
    return f"{trouble or 'nothing is received on this topic'}; publish on {where}"


def _trouble_with(topic: str) -> str | None:
    slug, _, below_slug = topic.partition("/")
    if not FORBIDDEN_CHARACTERS.isdisjoint(topic):
        return "a topic has neither + nor # nor U+0000"
    if topic.endswith("/"):
        return "the topic ends with a slash, which makes it another topic; leave the slash out"
    if f"/{topic}".endswith(f"/{CONTROL_PATH}"):
        return f"{CONTROL_PATH} is the platform's own: it publishes there and devices listen"
    if slug.startswith("$"):
        return "topics that begin with $ are the broker's own; a topic slug begins otherwise"
    if _is_below_devices(topic):
        return None
    if slug in RESERVED_SLUGS:
        return f"the topic slug {slug} is reserved; a device that sends these messages has another"
    if below_slug.startswith("/"):
        return "the topic has no device name"
    if topic.endswith(tuple(f"/{path}" for path in SYNC_PATHS)):
        return "a device's root has exactly two levels, its slug and its name"
    return None


def _is_below_devices(topic: str) -> bool:
    """Whether it is a device's own channel that was meant, rather than a slug that is reserved."""
    slug, _, below_slug = topic.partition("/")
    return slug == DEVICES_ROOT and kind_of(below_slug.partition("/")[2]) is None


_INBOUND = f"{{topic_slug}}/{{device_name}}/ and one of {', '.join(SYNC_PATHS)}"
_BELOW_DEVICES = f"{DEVICES_ROOT}/{{device_id}}/ and one of {', '.join(sorted(DEVICE_PATHS))}"


def _under_devices(topic: str, device_id: str, relative_path: str) -> Address:
    if not device_id or not relative_path:
        return Address(topic, None, None, None)
    kind = MessageKind.DEVICE if relative_path in DEVICE_PATHS else None
    return Address(topic, kind, "", device_id)


def _is_legal_root(slug: str, device_name: str) -> bool:
    return bool(device_name) and slug not in RESERVED_SLUGS and not slug.startswith("$")
