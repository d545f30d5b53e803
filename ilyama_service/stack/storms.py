"""Who sends more than all others together."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

import msgspec
import pyarrow as pa

from ilyama_protocol.topics import Address, parse_topic
from ilyama_resources.landing.directory import Landing
from ilyama_resources.landing.segment_files import Segment, read_topics
from ilyama_resources.postgres import Transaction

STORM_WINDOW: Final = timedelta(minutes=5)
STORM_SHARE: Final = 0.5
_SAMPLED: Final = 20
_UNREGISTERED: Final = ""
_Root = tuple[str | None, str | None]


class BusiestDevice(msgspec.Struct):
    """A device that sent most of what came lately.

    Of topics that belong to no registered device, which count as one, the id is empty and the
    busiest root among them is named, as far as their segments are still there.
    """

    device_id: str
    messages: int
    of_messages: int
    topic_root: str | None = None

    @property
    def named(self) -> str:
        """Who it is, for a person."""
        if self.device_id != _UNREGISTERED:
            return self.device_id
        most = f", most of them under {self.topic_root}," if self.topic_root else ""
        return f"topics of no registered device{most}"


def busiest_device(tx: Transaction, landing: Landing, *, now: datetime) -> BusiestDevice | None:
    """The device that sent more than its share lately, when there are others."""
    since = now - STORM_WINDOW
    messages = tx.ledger.messages_by_device(since=since)
    total = sum(count for _, count in messages)
    if len(messages) < 2 or messages[0][1] <= STORM_SHARE * total:
        return None
    busiest = BusiestDevice(*messages[0], total)
    if busiest.device_id == _UNREGISTERED:
        sample = tx.segments.drained_since(since, limit=_SAMPLED)
        busiest.topic_root = _busiest_root(tx, Counter(_topics(landing, sample)))
    return busiest


def _topics(landing: Landing, segments: Iterable[Segment]) -> Iterator[str]:
    for segment in segments:
        path = landing.find(segment.segment_id, segment.day)
        # It may be moved, or removed, at any moment.
        with suppress(OSError, pa.ArrowException):
            yield from (topic for topic, _ in read_topics(path)) if path else ()


def _busiest_root(tx: Transaction, topics: Counter[str]) -> str | None:
    addresses = {topic: parse_topic(topic) for topic in topics}
    registered = _registered(tx, addresses.values())
    roots: Counter[str] = Counter()
    for topic, address in addresses.items():
        if (address.topic_slug, address.device_name) not in registered:
            roots["/".join(topic.split("/")[:2])] += topics[topic]
    return roots.most_common(1)[0][0] if roots else None


def _registered(tx: Transaction, addresses: Iterable[Address]) -> set[_Root]:
    """The roots of registered devices; one without a slug may name a device by its id."""
    roots = {
        (address.topic_slug, address.device_name)
        for address in addresses
        if address.topic_slug is not None and address.device_name is not None
    }
    by_id = tx.devices.named(name for slug, name in roots if not slug)
    return {*tx.devices.at(roots), *(("", name) for name in by_id)}
