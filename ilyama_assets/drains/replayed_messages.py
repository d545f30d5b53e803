"""Stored rows of a day, message by message, as they were when they first came."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec
import pyarrow as pa

from ilyama_protocol.intake.datapoints import affinities_of
from ilyama_protocol.intake.engine import UNKNOWN_FIRMWARE
from ilyama_protocol.intake.outcomes import Arrival, Message
from ilyama_protocol.intake.state import DeviceState
from ilyama_protocol.topics import parse_topic

StoredLine = dict[str, Any]
"""A stored row, with what its message said beside the payload."""


def by_message(rows: pa.Table) -> Iterator[list[StoredLine]]:
    """The rows of every message, in order of arrival; moments are microseconds."""
    in_order = itemgetter("received_at", "segment_id", "position", "row_index")
    lines = sorted(in_microseconds(rows).to_pylist(), key=in_order)
    for _, message in groupby(lines, key=itemgetter("segment_id", "position")):
        yield list(message)


def in_microseconds(rows: pa.Table) -> pa.Table:
    """Rows with their moments as microseconds."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type):
            rows = rows.set_column(place, field.name, rows[field.name].cast(pa.int64()))
    return rows


def affinities_then(state: DeviceState, first: StoredLine) -> Mapping[str, str] | None:
    """The affinities that were known when a message came; a schema holds from its binding on."""
    lineage = state.lineage(first["source_table"])
    schema = lineage.schema_at(first["schema_hash"], first["received_at"])
    return None if schema is None else affinities_of(schema)


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
