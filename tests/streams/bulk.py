"""Valid, compact row batches at volume."""

import json
import random
from typing import Any

from tests.oracle.records import Event
from tests.streams.identifiers import START_US, Identifiers

SCHEMA_HASH = "a3" * 32
_MODES = ("heating", "cooling", "idle", "defrost")


def generate_bulk(
    seed: int,
    *,
    batches: int,
    rows_per_batch: int,
    devices: int = 50,
    pks: int = 1000,
    start_us: int = START_US,
) -> list[Event]:
    """Batches of devices that report in turn, each with a journal that only moves forward."""
    rng = random.Random(seed)
    identifiers = Identifiers(rng)
    epochs = [identifiers.uuid7() for _ in range(devices)]
    events = []
    for number in range(batches):
        device, turn = number % devices, number // devices
        batch = _batch(rng, first=turn * rows_per_batch + 1, rows=rows_per_batch, pks=pks)
        batch |= {"batch_id": identifiers.uuid7(), "journal_epoch": epochs[device]}
        payload = json.dumps(batch, separators=(",", ":")).encode()
        topic = f"bulk/dev-{device:04d}/sync/rows/batch"
        events.append(Event(topic, payload, start_us + number * 20_000))
    return events


def _batch(rng: random.Random, *, first: int, rows: int, pks: int) -> dict[str, Any]:
    return {
        "format_version": 1,
        "capture_strategy": "sqlite_row_batch_v1",
        "source_table": "device_state",
        "schema_hash": SCHEMA_HASH,
        "first_commit_seq": first,
        "last_commit_seq": first + rows - 1,
        "rows": [_row(rng, commit_seq, pks) for commit_seq in range(first, first + rows)],
    }


def _row(rng: random.Random, commit_seq: int, pks: int) -> dict[str, Any]:
    pk = rng.randrange(pks)
    row = {"id": pk, "mode": rng.choice(_MODES), "setpoint": rng.randrange(100, 300) / 10}
    return {"commit_seq": commit_seq, "op": "update", "pk": {"id": pk}, "row": row}
