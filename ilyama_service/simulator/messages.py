"""What a simulated device sends, with what the platform should make of it."""

from enum import StrEnum
from typing import Any

import msgspec
import orjson

from ilyama_protocol.rejections import RejectionCode

Change = dict[str, Any]
"""One element of `rows`: commit_seq, op, pk, row."""


class Behaviour(StrEnum):
    """Why a message was sent."""

    FRESH = "fresh"
    REDELIVERY = "redelivery"
    SPLIT = "split"
    REORDERED = "reordered"
    NEW_EPOCH = "new_epoch"
    REJECTED = "rejected"
    CLONE = "clone"
    PROBE = "probe"
    TELEMETRY = "telemetry"


class SentRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The key of a row beside its batch's, and a checksum of its text (0 for a delete)."""

    commit_seq: int
    op: str
    pk: msgspec.Raw
    checksum: int


class Sent(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="sent"):
    """A message as the record keeps it.

    Attributes:
        number: Its place in the run.
        device: The number of its device.
        topic: Where it was published.
        behaviour: Why.
        batch_id: The batch id that it names, whether that is a legal one or not.
        sha256: The hash of its payload.
        source_table: The table of its rows.
        journal_epoch: The journal of its rows.
        rows: The rows that the platform should hold; none when it is to be rejected.
        code: The code it is to be rejected with.
        samples: How many rows of telemetry it has.
    """

    number: int
    device: int
    topic: str
    behaviour: Behaviour
    batch_id: str
    sha256: str
    source_table: str
    journal_epoch: str
    rows: list[SentRow]
    code: RejectionCode | None = None
    samples: int = 0


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A message that a device wants to send next."""

    behaviour: Behaviour
    batch_id: str
    payload: bytes
    source_table: str
    journal_epoch: str
    rows: list[SentRow]
    code: RejectionCode | None = None
    path: str = "sync/rows/batch"
    samples: int = 0

    @property
    def changes(self) -> list[Change]:
        """The rows of a sound batch, read from its payload: keeping them would cost ten times."""
        changes: list[Change] = orjson.loads(self.payload)["rows"]
        return changes

    def again(self) -> "Draft":
        """The same bytes once more."""
        return msgspec.structs.replace(self, behaviour=Behaviour.REDELIVERY)


class SimulatedMessage(msgspec.Struct, frozen=True):
    """A message with its payload, and its line of the record."""

    sent: Sent
    payload: bytes
