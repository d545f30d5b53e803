"""Validation: one order of checks, and one code for a message that fails any.

Two lanes give one answer. The exact lane is the rule table, in the order that the protocol
prescribes. The fast lane can only accept: what it cannot prove valid goes to the exact lane.
"""

from collections.abc import Callable
from typing import TypeAlias

from ilyama_protocol.limits import DEFAULT_LIMITS, Limits
from ilyama_protocol.messages import Message
from ilyama_protocol.rejections import Rejection
from ilyama_protocol.topics import MessageKind
from ilyama_protocol.validation.cases import Case
from ilyama_protocol.validation.fast import proven_row_batch
from ilyama_protocol.validation.fast_telemetry import proven_telemetry_batch
from ilyama_protocol.validation.results import message_of
from ilyama_protocol.validation.rules import rejection_of

Verdict: TypeAlias = Message | Rejection

_FAST_LANES: dict[MessageKind | None, Callable[[bytes, Limits], Message | None]] = {
    MessageKind.ROWS: proven_row_batch,
    MessageKind.TELEMETRY: proven_telemetry_batch,
}


def validate(
    kind: MessageKind | None,
    payload: bytes,
    *,
    registered: bool = True,
    limits: Limits = DEFAULT_LIMITS,
    topic: str | None = None,
) -> Verdict:
    """Return the message that a payload is, or why it is refused.

    Args:
        kind: What the topic carries, None for a topic that is not an inbound one.
        payload: The bytes as they were received.
        registered: Whether the registry knows the device.
        limits: The deployment's limits.
        topic: Where it was published; a topic that is not an inbound one is explained with it.

    Raises:
        ValueError: The kind is `DEVICE`, whose messages have rules of their own.
    """
    if kind is MessageKind.DEVICE:
        raise ValueError("device messages are not validated by the replication protocol")
    prove = _FAST_LANES.get(kind) if registered else None
    proven = None if prove is None else prove(payload, limits)
    if proven is not None:
        return proven
    return examine(Case(kind, payload, registered=registered, limits=limits, topic=topic))


def examine(case: Case) -> Verdict:
    """Judge a case by the rule table, the exact lane."""
    return rejection_of(case) or message_of(case)
