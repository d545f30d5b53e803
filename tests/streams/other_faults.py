"""Everything that is no row batch, and every message that must be rejected."""

import random
from collections.abc import Callable, Mapping
from typing import Any

from ilyama_service.simulator.mutations import (
    ACK,
    BROKEN_TEXTS,
    OBSERVE,
    REQUEST,
    ROWS,
    TELEMETRY,
    Document,
    Mutation,
)
from ilyama_service.simulator.spelling import compact
from tests.streams.devices import Batch, Message
from tests.streams.stream import Stream

_TS = "2026-04-28T09:00:{:02d}.{:03d}Z"
PATHS = {
    "rows": "sync/rows/batch",
    "telemetry": "sync/telemetry/batch",
    "observe": "sync/schema/observe",
    "ack": "sync/ingest/ack",
    "request": "sync/ingest/request",
}
MUTATIONS: Mapping[str, Mapping[str, tuple[Mutation, ...]]] = {
    "rows": ROWS,
    "telemetry": TELEMETRY,
    "observe": OBSERVE,
    "ack": ACK,
    "request": REQUEST,
}


def _telemetry(stream: Stream) -> Document:
    count = stream.rng.randint(1, 5)
    times = [_TS.format(second, stream.rng.randrange(1000)) for second in range(count)]
    return {
        "format_version": 1,
        "capture_strategy": "sqlite_telemetry_batch_v1",
        "batch_id": stream.ids.uuid7(),
        "batch_seq": stream.rng.randrange(1000),
        "source_table": "temps",
        "schema_hash": "b" * 64,
        "cursor_start_ts": times[0],
        "cursor_end_ts": times[-1].replace("Z", "000+00:00"),
        "row_count": count,
        "rows": [_sample(ts, stream.rng) for ts in times],
    }


def _sample(ts: str, rng: random.Random) -> dict[str, Any]:
    row_id = rng.choice((None, "00000000-0000-0000-0000-000000000000"))
    return {"ts": ts, "fields": {"value_c": rng.random(), "ok": True}, "row_id": row_id}


def _observe(stream: Stream) -> Document:
    table = stream.rng.choice(stream.device().tables)
    return {
        "format_version": 1,
        "source_table": table.name,
        "schema_hash": table.schema_hash(),
        "observed_at": "2026-04-28t09:00:00.123456789-00:00",
        "schema_columns": stream.rng.choice((None, {}, table.schema_columns())),
    }


def _request(stream: Stream) -> Document:
    return {
        "format_version": 1,
        "request_kind": "finalize",
        "source_table": "alarms",
        "batch_id": stream.ids.uuid7(),
        "segment_kind": stream.rng.choice(("bootstrap_snapshot", "payload_spill")),
    }


def _ack(stream: Stream) -> Document:
    return {"format_version": 1, "control_id": f"control {stream.rng.random()}"}


def _rows(stream: Stream) -> Document:
    return stream.next_batch().document()


VALID: Mapping[str, Callable[[Stream], Document]] = {
    "rows": _rows,
    "telemetry": _telemetry,
    "observe": _observe,
    "ack": _ack,
    "request": _request,
}
"""A sound document of each kind."""


def _sent(stream: Stream, kind: str, payload: bytes) -> Message:
    return Message(f"{stream.device().root}/{PATHS[kind]}", payload)


def other_kinds(stream: Stream) -> list[Message]:
    """Telemetry, an observation, an ack and a request, all of them sound."""
    kinds = ("telemetry", "observe", "ack", "request")
    return [_sent(stream, kind, _spelled(VALID[kind](stream))) for kind in kinds]


def url_request(stream: Stream) -> list[Message]:
    """A request that needs no batch id, so that a wrong one does not matter."""
    request = VALID["request"](stream) | {"request_kind": "url_request", "batch_id": 1}
    return [_sent(stream, "request", _spelled(request))]


def mutated_rows(stream: Stream) -> list[Message]:
    """A row batch with one fault, of every code in turn."""
    return [_mutated(stream, "rows", code) for code in ROWS]


def mutated_others(stream: Stream) -> list[Message]:
    """One faulty message of each other kind."""
    kinds = ("telemetry", "observe", "ack", "request")
    return [_mutated(stream, kind, stream.rng.choice([*MUTATIONS[kind]])) for kind in kinds]


def mutated_telemetry(stream: Stream) -> list[Message]:
    """A telemetry batch with one fault, of every code in turn."""
    return [_mutated(stream, "telemetry", code) for code in TELEMETRY]


def two_faults_at_once(stream: Stream) -> list[Message]:
    """Two faults in one message: the first check that fails names the code."""
    pairs = {kind: stream.rng.sample([*MUTATIONS[kind]], 2) for kind in ("rows", "telemetry")}
    return [_mutated(stream, kind, *codes) for kind, codes in pairs.items()]


def _mutated(stream: Stream, kind: str, *codes: str) -> Message:
    document = VALID[kind](stream)
    for code in codes:
        stream.rng.choice(MUTATIONS[kind][code])(document, stream.rng)
    return _sent(stream, kind, _spelled(document))


def broken_text(stream: Stream) -> list[Message]:
    """Bytes that are not one JSON object."""
    kind = stream.rng.choice([*PATHS])
    sound = _spelled(VALID[kind](stream))
    broken = stream.rng.sample(BROKEN_TEXTS, 4)
    return [_sent(stream, kind, spoil(sound)) for spoil in broken]


def unknown_topics(stream: Stream) -> list[Message]:
    """Topics that no device may publish to, or that mean nothing."""
    batch: Batch = stream.next_batch()
    root, payload = batch.root, batch.message().payload
    topics = (
        f"{root}/sync",
        f"{root}/sync/rows",
        f"{root}/sync/rows/batch/",
        f"{root}/sync/ingest/control",
        f"{root}/Sync/rows/batch",
        f"{root}/status",
        f"x/{root}/sync/rows/batch",
        "cdc/dev-0001/sync/rows/batch",
        "$SYS/dev-0001/sync/rows/batch",
        "acme//sync/rows/batch",
        "acme/+/sync/rows/batch",
        "acme/#",
        "acme/de\0v/sync/rows/batch",
        "devices/dev-0001/sync/rows/batch",
        "devices/dev-0001/config/operation",
        "devices//telemetry",
        "sync/rows/batch",
        "",
    )
    return [Message(topic, payload) for topic in stream.rng.sample(topics, 5)]


def device_messages(stream: Stream) -> list[Message]:
    """Telemetry and configuration status of the same devices under their other root."""
    name = stream.device().name
    payload = _spelled({"schema_version": 1, "seq": stream.rng.randrange(10**6)})
    paths = ("telemetry", "config/status/operation", "config/status/mqtt")
    return [Message(f"devices/{name}/{path}", payload) for path in paths]


def stranger(stream: Stream) -> list[Message]:
    """A device nobody registered; welcome only where devices register themselves."""
    payload = stream.next_batch().message().payload
    return [Message(f"strangers/dev-{stream.rng.randrange(3)}/sync/rows/batch", payload)]


def _spelled(document: Document) -> bytes:
    return compact(document).encode()


OTHER_FAULTS = (
    other_kinds,
    url_request,
    mutated_rows,
    mutated_others,
    mutated_telemetry,
    two_faults_at_once,
    broken_text,
    unknown_topics,
    device_messages,
    stranger,
)
