"""Segment files: messages as they arrived, in Parquet files that are never changed.

A segment holds messages of one UTC day. It is written aside, forced to disk and renamed, so that a
file in place is whole; what Postgres must know of it is in its footer, so that a file alone is
enough to register it later.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ilyama_protocol.intake.outcomes import Message, Origin
from ilyama_protocol.moments import day_number, day_of, utc
from ilyama_resources.durability import force_to_disk, make_directory
from ilyama_resources.faults import crash_point

SEGMENT_SCHEMA = pa.schema(
    [
        pa.field("segment_id", pa.string(), nullable=False),
        pa.field("position", pa.int32(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("payload_bytes", pa.int32(), nullable=False),
        pa.field("received_at", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("qos", pa.int8(), nullable=False),
        pa.field("user_properties", pa.map_(pa.string(), pa.string())),
        pa.field("payload", pa.binary(), nullable=False),
    ]
)
_OF_REPLAYS = [
    pa.field("rejection_id", pa.string(), nullable=False),
    pa.field("timed_anew", pa.bool_(), nullable=False),
    pa.field("arrived_at", pa.timestamp("us", tz="UTC")),
]
_REPLAY_SCHEMA = pa.schema([*SEGMENT_SCHEMA, *_OF_REPLAYS])
_READING_SCHEMA = pa.schema(
    [*SEGMENT_SCHEMA, *(field.with_nullable(True) for field in _OF_REPLAYS)]
)
SUFFIX = ".parquet"
DRAFT = ".landing"
MOST_MESSAGES = 50_000


class Segment(NamedTuple):
    """What there is to know of a landed segment."""

    segment_id: str
    day: date
    messages: int
    bytes: int
    first_received_at: datetime
    last_received_at: datetime
    origin: str = Origin.LIVE.value


def portions(messages: Iterable[Message], *, max_bytes: int) -> Iterator[list[Message]]:
    """Messages in portions that fit a segment: of one day and of a bounded size."""
    portion: list[Message] = []
    size = 0
    for message in messages:
        full = size + len(message.payload) > max_bytes or len(portion) == MOST_MESSAGES
        other_day = portion and day_number(portion[0].landed_at) != day_number(message.landed_at)
        if portion and (full or other_day):
            yield portion
            portion, size = [], 0
        portion.append(message)
        size += len(message.payload)
    if portion:
        yield portion


def write_segment(path: Path, messages: Sequence[Message], origin: Origin = Origin.LIVE) -> Segment:
    """Land messages of one day; when this returns they survive a crash."""
    segment = describe(path.stem, messages)._replace(origin=origin.value)
    aside, table = path.with_suffix(DRAFT), _table(segment, messages)
    make_directory(path.parent)
    try:
        _write_beside_sweeps(aside, table)
    except OSError:
        # On a full disk, half a file would keep the room that the next attempt needs.
        aside.unlink(missing_ok=True)
        raise
    crash_point("segment_rename.before")
    aside.rename(path)
    force_to_disk(path.parent)
    crash_point("segment_rename.after")
    return segment


def _write_beside_sweeps(path: Path, table: pa.Table) -> None:
    try:
        _write_durably(path, table)
    except FileNotFoundError:
        # The directory was empty for long, and a sweep has just removed it.
        make_directory(path.parent)
        _write_durably(path, table)


def _write_durably(path: Path, table: pa.Table) -> None:
    with path.open("wb") as file:
        pq.write_table(table, file, compression="zstd")
        file.flush()
        os.fsync(file.fileno())


def read_messages(path: Path, *, topics: frozenset[str] | None = None) -> Iterator[Message]:
    """The messages of a segment, in order; only those of certain topics when these are given."""
    table = pq.read_table(path, schema=_READING_SCHEMA)
    received_at = table["received_at"].cast(pa.int64()).to_pylist()
    names = table["topic"].to_pylist()
    payloads, properties = table["payload"], table["user_properties"]
    rejections, anew = table["rejection_id"].to_pylist(), table["timed_anew"].to_pylist()
    arrived_at = table["arrived_at"].cast(pa.int64()).to_pylist()
    for position, topic in enumerate(names):
        if topics is None or topic in topics:
            yield Message(
                path.stem,
                position,
                topic,
                payloads[position].as_py(),
                received_at[position],
                user_properties=dict(properties[position].as_py() or ()),
                rejection_id=rejections[position],
                timed_anew=bool(anew[position]),
                arrived_at=arrived_at[position],
            )


def read_topics(path: Path) -> Iterator[tuple[str, int]]:
    """Each message's topic and size, without its payload."""
    table = pq.read_table(path, columns=["topic", "payload_bytes"])
    return zip(table["topic"].to_pylist(), table["payload_bytes"].to_pylist(), strict=True)


def _table(segment: Segment, messages: Sequence[Message]) -> pa.Table:
    columns: list[Sequence[object]] = [
        [segment.segment_id] * len(messages),
        range(len(messages)),
        [message.topic for message in messages],
        [len(message.payload) for message in messages],
        [message.landed_at for message in messages],
        [message.qos for message in messages],
        [list(message.user_properties.items()) for message in messages],
        [message.payload for message in messages],
    ]
    schema = SEGMENT_SCHEMA
    if segment.origin == Origin.REJECTION:
        schema = _REPLAY_SCHEMA
        columns.append([message.rejection_id for message in messages])
        columns.append([message.timed_anew for message in messages])
        columns.append([message.arrived_at for message in messages])
    arrays = [pa.array(c, field.type) for c, field in zip(columns, schema, strict=True)]
    table = pa.Table.from_arrays(arrays, schema=schema)
    return table.replace_schema_metadata({"segment": _footer_text(segment)})


def describe(segment_id: str, messages: Sequence[Message]) -> Segment:
    """What there is to know of messages that will land as one segment."""
    moments = [message.landed_at for message in messages]
    first, last = min(moments), max(moments)
    if day_of(first) != day_of(last):
        raise ValueError(f"segment {segment_id} mixes {day_of(first)} and {day_of(last)}")
    size = sum(len(message.payload) for message in messages)
    return Segment(segment_id, day_of(first), len(messages), size, utc(first), utc(last))


def _footer_text(segment: Segment) -> str:
    first, last = segment.first_received_at.isoformat(), segment.last_received_at.isoformat()
    return f"{segment.messages} {segment.bytes} {first} {last} {segment.origin}"


def read_footer(path: Path) -> Segment:
    """What a segment says of itself."""
    metadata = pq.read_schema(path).metadata
    # Segments of older builds say no origin: there was one only.
    messages, size, first, last, *origin = metadata[b"segment"].decode().split(" ")
    first_at, last_at = datetime.fromisoformat(first), datetime.fromisoformat(last)
    told = (int(messages), int(size), first_at, last_at, *origin)
    return Segment(path.stem, first_at.date(), *told)
