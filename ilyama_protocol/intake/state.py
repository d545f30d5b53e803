"""What the platform remembers of a device between drains.

One small document per device: its clock, the order of its journal epochs, and per lineage the
watermarks, floors and schemas. Nothing per batch and nothing per primary key.
"""

from __future__ import annotations

import msgspec

from ilyama_protocol.fingerprint import SchemaColumn

PAYLOAD_BYTES_PER_ROW = 40
"""No row of a batch can be written in fewer bytes, so its rows never outrun this clock."""


class BoundSchema(msgspec.Struct, array_like=True):
    """The columns behind a schema hash, and the received_at from which they hold."""

    holds_from: int
    columns: tuple[SchemaColumn, ...]


class LineageState(msgspec.Struct, omit_defaults=True):
    """What is remembered of one source table of a device."""

    watermarks: dict[str, int] = {}
    floors: dict[str, int] = {}
    schemas: dict[str, BoundSchema] = {}


class DeviceState(msgspec.Struct, omit_defaults=True):
    """What is remembered of one device."""

    next_received_at: int | None = None
    epochs: dict[str, int] = {}
    lineages: dict[str, LineageState] = {}

    def receive(self, landed_at: int, payload_bytes: int) -> int:
        """Advance the device's clock past a message and return its effective received_at."""
        received_at = landed_at
        if self.next_received_at is not None:
            received_at = max(landed_at, self.next_received_at)
        self.next_received_at = received_at + 1 + payload_bytes // PAYLOAD_BYTES_PER_ROW
        return received_at

    def lineage(self, source_table: str) -> LineageState:
        """The state of a lineage, created on first sight."""
        return self.lineages.setdefault(source_table, LineageState())

    def rank(self, epoch: str) -> int:
        """The epoch's place in the order of first accepted arrivals; an unseen one comes last."""
        return self.epochs.get(epoch, len(self.epochs))

    def copy(self) -> DeviceState:
        """An independent copy, so that a decision can be thrown away."""
        return decode_state(encode_state(self))


_decoder = msgspec.json.Decoder(DeviceState)
_encoder = msgspec.json.Encoder()


def encode_state(state: DeviceState) -> bytes:
    """The state as it is stored."""
    return _encoder.encode(state)


def decode_state(data: bytes) -> DeviceState:
    """The state as it was stored."""
    return _decoder.decode(data)
