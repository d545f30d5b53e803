"""The batches of a device as documents: their members, and the ids that they carry."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from ilyama_protocol.topics import MessageKind
from ilyama_protocol.validation.envelopes import CAPTURE_STRATEGIES, FORMAT_VERSION
from ilyama_service.simulator.messages import Change

Document = dict[str, Any]


def row_batch(
    changes: Sequence[Change],
    *,
    batch_id: str,
    epoch: str,
    table: str,
    schema_hash: str,
    schema_columns: Document | None = None,
) -> Document:
    """A batch of row changes."""
    numbers = [change["commit_seq"] for change in changes]
    announced = {} if schema_columns is None else {"schema_columns": schema_columns}
    return {
        "format_version": FORMAT_VERSION,
        "capture_strategy": CAPTURE_STRATEGIES[MessageKind.ROWS],
        "batch_id": batch_id,
        "journal_epoch": epoch,
        "source_table": table,
        "schema_hash": schema_hash,
        "first_commit_seq": min(numbers),
        "last_commit_seq": max(numbers),
        **announced,
        "rows": list(changes),
    }


def telemetry_batch(
    samples: Sequence[Document],
    *,
    batch_id: str,
    batch_seq: int,
    table: str,
    schema_hash: str,
    schema_columns: Document | None = None,
) -> Document:
    """A batch of samples, whose times are all spelt alike."""
    times = [sample["ts"] for sample in samples]
    announced = {} if schema_columns is None else {"schema_columns": schema_columns}
    return {
        "format_version": FORMAT_VERSION,
        "capture_strategy": CAPTURE_STRATEGIES[MessageKind.TELEMETRY],
        "batch_id": batch_id,
        "batch_seq": batch_seq,
        "source_table": table,
        "schema_hash": schema_hash,
        "cursor_start_ts": min(times),
        "cursor_end_ts": max(times),
        "row_count": len(samples),
        **announced,
        "rows": list(samples),
    }


def uuid7(moment_ms: int, noise: int) -> str:
    """The UUIDv7 of a moment and 74 bits of noise."""
    number = moment_ms << 80 | 0x7 << 76 | (noise >> 62) << 64 | 0b10 << 62
    return str(UUID(int=number | noise & ((1 << 62) - 1)))
