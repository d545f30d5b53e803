"""Row batches of one device, and an engine that takes them."""

import json
from collections.abc import Callable, Iterable
from typing import Any

from ilyama_protocol.fingerprint import Affinity, SchemaColumn, schema_hash
from ilyama_protocol.intake.datapoints import Points
from ilyama_protocol.intake.engine import Device, IntakeEngine
from ilyama_protocol.intake.history import History
from ilyama_protocol.intake.outcomes import Arrival, DecidedRows, LedgerLine, Message, Origin
from ilyama_protocol.intake.schema_rulings import SchemaRulings
from ilyama_protocol.intake.state import DeviceState, LineageState
from ilyama_protocol.topics import parse_topic
from ilyama_protocol.validation import validate
from tests.streams.telemetry import rfc3339

DEVICE_ID = "acme/dev-1"
TOPIC = f"{DEVICE_ID}/sync/rows/batch"
TELEMETRY_TOPIC = f"{DEVICE_ID}/sync/telemetry/batch"
NOW = 1_777_366_800_000_000
TABLE = "pumps"
A = "019693d0-0000-7000-8000-00000000000a"
B = "019693d0-0000-7000-8000-00000000000b"
C = "019693d0-0000-7000-8000-00000000000c"
UNNAMED_SCHEMA = "a3" * 32
ONE_ROW = {"mode": "idle"}

Change = dict[str, Any]
Sample = tuple[int, dict[str, Any]]
"""The moment and the fields of a row of telemetry."""


def change(seq: int, pk: Any = 1, *, op: str = "update", row: Any = ONE_ROW) -> Change:
    content = None if op == "delete" else row
    return {"commit_seq": seq, "op": op, "pk": {"id": pk}, "row": content}


def columns(**affinities: str) -> tuple[SchemaColumn, ...]:
    """Columns by name and affinity; only these two matter to intake."""
    return tuple(
        SchemaColumn(name, Affinity(affinity), pk_ordinal=0, not_null=False)
        for name, affinity in affinities.items()
    )


def batch(
    *changes: Change,
    epoch: str = A,
    table: str = TABLE,
    number: int = 0,
    schema: tuple[SchemaColumn, ...] = (),
    announce: bool = True,
) -> bytes:
    """A row batch; one with a schema names it, and announces its columns unless told not to."""
    numbers = [change["commit_seq"] for change in changes]
    document = {
        "format_version": 1,
        "capture_strategy": "sqlite_row_batch_v1",
        "batch_id": f"019693e0-7c1a-7b3e-9f00-{number:012x}",
        "journal_epoch": epoch,
        "source_table": table,
        "schema_hash": schema_hash(table, schema) if schema else UNNAMED_SCHEMA,
        "first_commit_seq": min(numbers),
        "last_commit_seq": max(numbers),
        "rows": changes,
    }
    if schema and announce:
        document["schema_columns"] = _declaration(table, schema)
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def _declaration(table: str, schema: tuple[SchemaColumn, ...]) -> dict[str, Any]:
    names = ("name", "decl_type_affinity", "pk_ordinal", "not_null")
    declared = [{name: getattr(column, name) for name in names} for column in schema]
    return {"table_name": table, "columns": declared}


def sample(second: float = 0, **fields: Any) -> Sample:
    """A row of telemetry, so many seconds after the messages land."""
    return NOW + round(second * 1_000_000), fields or {"celsius": 21.5}


def telemetry(
    *samples: Sample,
    seq: int = 0,
    number: int | None = None,
    table: str = TABLE,
    schema: tuple[SchemaColumn, ...] = (),
    **members: Any,
) -> bytes:
    """A telemetry batch; its id follows its number unless told otherwise."""
    moments = [ts for ts, _ in samples]
    document = {
        "format_version": 1,
        "capture_strategy": "sqlite_telemetry_batch_v1",
        "batch_id": f"019693e0-7c1a-7b3e-9f00-{seq if number is None else number:012x}",
        "batch_seq": seq,
        "source_table": table,
        "schema_hash": schema_hash(table, schema) if schema else UNNAMED_SCHEMA,
        "cursor_start_ts": rfc3339(min(moments)),
        "cursor_end_ts": rfc3339(max(moments)),
        "row_count": len(samples),
        "rows": [{"ts": rfc3339(ts), "fields": fields} for ts, fields in samples],
    }
    if schema:
        document["schema_columns"] = _declaration(table, schema)
    return json.dumps(document | members, ensure_ascii=False, separators=(",", ":")).encode()


def sampled(*payloads: bytes, engine: IntakeEngine | None = None) -> IntakeEngine:
    """An engine that took telemetry batches, which landed a second apart, in one drain."""
    taking = engine or _knowing_nothing()
    for position, payload in enumerate(payloads):
        at = NOW + position * 1_000_000
        taking.decide(message(payload, at=at, position=position, topic=TELEMETRY_TOPIC))
    return taking


def message(
    payload: bytes, *, at: int = NOW, position: int = 0, topic: str = TOPIC, **properties: str
) -> Message:
    return Message("segment", position, topic, payload, at, user_properties=properties)


def staged(payload: bytes, second: int = 1) -> DecidedRows:
    """A row batch of one row that was set aside, so many seconds after the first message."""
    address = parse_topic(TOPIC)
    read = validate(address.kind, payload, registered=True)
    arrival = Arrival(message(payload), address, DEVICE_ID, NOW + second * 1_000_000, "", "1.0")
    return DecidedRows(arrival, read, [0], set())  # type: ignore[arg-type]


def engine(
    state: DeviceState | None = None,
    *,
    history: History | None = None,
    inspect: Callable[[Message], None] | None = None,
    rulings: SchemaRulings | None = None,
    origin: Origin = Origin.LIVE,
) -> IntakeEngine:
    return IntakeEngine(
        Device(DEVICE_ID),
        state or DeviceState(),
        history=history,
        inspect=inspect,
        rulings=rulings,
        origin=origin,
    )


def _knowing_nothing() -> IntakeEngine:
    return engine()


def decided(payloads: Iterable[bytes], engine: IntakeEngine) -> IntakeEngine:
    """The engine after it took payloads that landed a second apart."""
    for position, payload in enumerate(payloads):
        engine.decide(message(payload, at=NOW + position * 1_000_000, position=position))
    return engine


def taken(*payloads: bytes) -> IntakeEngine:
    """An engine that knew nothing and took these payloads in one drain."""
    return decided(payloads, engine())


def state_with(table: str = TABLE, **lineage: Any) -> DeviceState:
    """The state of a device whose epochs are those that the lineage names, in their order."""
    epochs = {*lineage.get("watermarks", {}), *lineage.get("floors", {})}
    ranks = {epoch: rank for rank, epoch in enumerate(sorted(epochs))}
    return DeviceState(epochs=ranks, lineages={table: LineageState(**lineage)})


def counts(line: LedgerLine) -> dict[str, int]:
    """The row counts of a ledger line that are not zero."""
    sorts = ("received", "new", "duplicate", "conflict", "below_floor", "rejected", "staged")
    told = {sort: getattr(line, f"rows_{sort}") for sort in sorts}
    return {sort: count for sort, count in told.items() if count}


def last_line(engine: IntakeEngine) -> LedgerLine:
    return engine.decisions.outcomes.ledger[-1]


def accepted_places(engine: IntakeEngine) -> list[tuple[str, int, bool]]:
    """The (epoch, commit_seq, late) of every accepted row, in order of acceptance."""
    return [
        (rows.batch.journal_epoch, rows.batch.commit_seq[i], i in rows.late)
        for rows in engine.decisions.outcomes.accepted
        for i in rows.rows
    ]


def points_of(engine: IntakeEngine) -> list[Points]:
    """The datapoints of the batch that was accepted last."""
    return engine.decisions.outcomes.accepted[-1].points
