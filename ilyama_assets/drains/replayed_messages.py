"""The messages that stored rows came in."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa

from ilyama_protocol.intake.outcomes import Arrival, Message
from ilyama_protocol.names import UNKNOWN_FIRMWARE
from ilyama_protocol.topics import parse_topic

StoredLine = dict[str, Any]
"""A stored row, with what its message said beside the payload."""


def in_microseconds(rows: pa.Table) -> pa.Table:
    """Rows with their moments as microseconds."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type):
            rows = rows.set_column(place, field.name, rows[field.name].cast(pa.int64()))
    return rows


def arrival_of(device_id: str, first: StoredLine) -> Arrival:
    """The message that a stored row came in."""
    properties = first["user_properties"]
    message = Message(
        first["segment_id"],
        first["position"],
        first["topic"] or "",
        b"",
        first["received_at"],
        user_properties=msgspec.json.decode(properties) if properties else {},
    )
    return Arrival(
        message,
        parse_topic(message.topic),
        device_id,
        first["received_at"],
        first["payload_sha256"] or "",
        UNKNOWN_FIRMWARE,
    )
