"""Devices that sample: their batches are numbered, and their clocks are what they are."""

import random
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from ilyama_service.simulator.spelling import compact
from tests.streams.devices import Message
from tests.streams.identifiers import START_US, Identifiers
from tests.streams.values import TABLES, Table, any_value, fitting_value

SECOND_US = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ODD_SAMPLES = (
    Table(
        name="samples.%é",
        affinities=(("v.%", "REAL"), ("__deleted", "NUMERIC"), ("zażółć", "TEXT"), ("", "BLOB")),
        pk_names=(),
        plain_pk=lambda _: {},
    ),
    TABLES[0],
)
"""A table with odd names, and one that devices also send as rows."""


@dataclass(frozen=True, slots=True)
class TelemetryBatch:
    """A valid telemetry batch before it is spelled; each row has its moment in microseconds."""

    root: str
    batch_id: str
    batch_seq: int
    table: str
    schema_hash: str
    rows: tuple[tuple[int, dict[str, Any]], ...]
    extra: dict[str, Any] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """The batch as its JSON members."""
        moments = [ts for ts, _ in self.rows]
        return {
            "format_version": 1,
            "capture_strategy": "sqlite_telemetry_batch_v1",
            "batch_id": self.batch_id,
            "batch_seq": self.batch_seq,
            "source_table": self.table,
            "schema_hash": self.schema_hash,
            "cursor_start_ts": rfc3339(min(moments)),
            "cursor_end_ts": rfc3339(max(moments)),
            "row_count": len(self.rows),
            "rows": [{"ts": rfc3339(ts), "fields": fields} for ts, fields in self.rows],
            **self.extra,
        }

    def message(self) -> Message:
        """The batch as a device sends it."""
        return self.spelled(compact(self.document()))

    def spelled(self, text: str) -> Message:
        """A text sent as this batch."""
        return Message(f"{self.root}/sync/telemetry/batch", text.encode())


def rfc3339(ts: int) -> str:
    """A moment as devices write it."""
    moment = _EPOCH + timedelta(microseconds=ts)
    return moment.strftime(f"{moment.year:04d}-%m-%dT%H:%M:%S.%fZ")


class Sampler:
    """The telemetry of one table of a device: its numbers and its clock."""

    def __init__(self, root: str, table: Table, ids: Identifiers, rng: random.Random) -> None:
        """Begin at number 0 and at the start of the stream."""
        self.root = root
        self.table = table
        self._ids = ids
        self._rng = rng
        self._next_seq = 0
        self.now = START_US - 3_600 * SECOND_US

    def take_seq(self, gap: int = 0) -> int:
        """The next number, after some that never come."""
        number = self._next_seq + gap
        self._next_seq = number + 1
        return number

    def batch(self, rows: int, *, gap: int = 0) -> TelemetryBatch:
        """The next batch."""
        return TelemetryBatch(
            root=self.root,
            batch_id=self._ids.uuid7(),
            batch_seq=self.take_seq(gap),
            table=self.table.name,
            schema_hash=self.table.schema_hash(),
            rows=tuple((self._tick(), self.fields()) for _ in range(rows)),
        )

    def announced(self, batch: TelemetryBatch) -> TelemetryBatch:
        """The same batch with its `schema_columns`."""
        return replace(batch, extra=batch.extra | {"schema_columns": self.table.schema_columns()})

    def fields(self) -> dict[str, Any]:
        """Fields that fit the table; scalars only."""
        return {
            name: _scalar(fitting_value(affinity, self._rng))
            for name, affinity in self.table.affinities
        }

    def odd_fields(self) -> dict[str, Any]:
        """Fields of any kind, one of them unknown."""
        names = [name for name, _ in self.table.affinities]
        return {name: _scalar(any_value(self._rng)) for name in (*names, "never declared")}

    def _tick(self) -> int:
        self.now += self._rng.choice((1, 999, SECOND_US, 60 * SECOND_US))
        return self.now


def _scalar(value: Any) -> Any:
    return str(value) if isinstance(value, dict | list) else value
