"""Messages on their way to disk: when a batch is due, and where midnight cuts it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from typing import TYPE_CHECKING

from paho.mqtt.client import MQTTMessage

from ilyama_protocol.intake.outcomes import Message
from ilyama_protocol.moments import day_number

if TYPE_CHECKING:
    from ilyama_resources.mqtt.connection import Connection


@dataclass(frozen=True)
class BatchLimits:
    """When a batch is due: at an age, at a size or after a burst; and how much it may hold.

    A batch that is large enough does not wait for its age, so that under load the disk is
    never idle; one that is due takes more messages while the disk is busy, up to the most.
    What came as a burst does not wait for its age either, once nothing more comes.
    """

    wait_s: float
    quiet_s: float
    burst_bytes: int
    enough_bytes: int
    max_bytes: int
    max_messages: int


@dataclass
class Batch:
    """Messages of one connection that will land together."""

    connection: Connection
    started_at: float
    touched_at: float = 0.0
    messages: list[Message] = field(default_factory=list)
    to_acknowledge: list[int] = field(default_factory=list)
    bytes: int = 0

    def add(self, message: Message, number: int | None, *, now: float) -> None:
        """Take a message; `number` is what the broker wants to have acknowledged."""
        self.touched_at = now
        self.messages.append(message)
        self.bytes += _size(message)
        if number is not None:
            self.to_acknowledge.append(number)

    def is_full(self, limits: BatchLimits) -> bool:
        """Whether nothing more may be added."""
        return self.bytes >= limits.max_bytes or len(self.messages) >= limits.max_messages

    def due_in(self, limits: BatchLimits, now: float) -> float:
        """Seconds until it should be written; 0 when it is due."""
        if self.bytes >= limits.enough_bytes or self.is_full(limits):
            return 0.0
        due_at = self.started_at + limits.wait_s
        if self.bytes >= limits.burst_bytes:
            due_at = min(due_at, self.touched_at + limits.quiet_s)
        return max(0.0, due_at - now)


def _size(message: Message) -> int:
    """The bytes that a message brought; beside the payload, words may have 64 KiB each."""
    words = (message.topic, *chain.from_iterable(message.user_properties.items()))
    return len(message.payload) + sum(len(word.encode()) for word in words)


def one_day_each(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """The messages in their order, cut wherever the UTC day changes."""
    for _, same_day in groupby(messages, key=lambda message: day_number(message.landed_at)):
        yield list(same_day)


def landed_message(message: MQTTMessage, landed_at: int) -> Message:
    """A message of the broker in the words of a segment."""
    return Message(
        segment_id="",
        position=0,
        topic=_topic(message),
        payload=bytes(message.payload),
        landed_at=landed_at,
        qos=message.qos,
        user_properties=_user_properties(message),
    )


def _topic(message: MQTTMessage) -> str:
    try:
        return message.topic
    except UnicodeDecodeError:
        return "\N{REPLACEMENT CHARACTER}"


def _user_properties(message: MQTTMessage) -> dict[str, str]:
    pairs: Sequence[tuple[str, str]] = getattr(message.properties, "UserProperty", ())
    return dict(pairs)
