"""What a simulated device samples beside its tables: pressure and flow, numbered batch by batch."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import orjson

from ilyama_protocol.fingerprint import Affinity, SchemaColumn, schema_hash
from ilyama_service.simulator.messages import Behaviour, Draft
from ilyama_service.simulator.source_tables import Walk

TABLE: Final = "pipe_samples"
PATH: Final = "sync/telemetry/batch"
COLUMNS: Final = tuple(
    SchemaColumn(name, Affinity.REAL, pk_ordinal=0, not_null=False) for name in ("bar", "litres")
)
_HASH: Final = schema_hash(TABLE, COLUMNS)
_SAMPLE_MS: Final = 100
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Sampler:
    """Makes the telemetry batches of one device."""

    def __init__(self, chance: random.Random, *, first_seq: int = 0) -> None:
        self._pressure = Walk(chance, around=4.0, step=0.05)
        self._flow = Walk(chance, around=120.0, step=2.0)
        self._next_seq = first_seq
        self._last_ms = 0

    def next(self, batch_id: str, *, moment_ms: int, rows: int) -> Draft:
        """The next batch; its moments come after those of the one before."""
        first = max(self._last_ms + _SAMPLE_MS, moment_ms)
        moments = [first + n * _SAMPLE_MS for n in range(rows)]
        self._last_ms = moments[-1]
        document: dict[str, Any] = {
            "format_version": 1,
            "capture_strategy": "sqlite_telemetry_batch_v1",
            "batch_id": batch_id,
            "batch_seq": self._next_seq,
            "source_table": TABLE,
            "schema_hash": _HASH,
            "cursor_start_ts": _text(moments[0]),
            "cursor_end_ts": _text(moments[-1]),
            "row_count": rows,
            "rows": [{"ts": _text(moment), "fields": self._fields()} for moment in moments],
        }
        self._next_seq += 1
        return Draft(
            behaviour=Behaviour.TELEMETRY,
            batch_id=batch_id,
            payload=orjson.dumps(document),
            source_table=TABLE,
            journal_epoch="",
            rows=[],
            path=PATH,
            samples=rows,
        )

    def _fields(self) -> dict[str, float]:
        return {"bar": self._pressure.next(), "litres": self._flow.next()}


def _text(moment_ms: int) -> str:
    moment = _EPOCH + timedelta(milliseconds=moment_ms)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment_ms % 1000:03}Z"
