"""Close: one Postgres transaction that makes a committed drain part of the records."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256

import pyarrow as pa

from ilyama_assets.drains.encoding import ROW_COUNTS
from ilyama_assets.drains.sealing import Seal
from ilyama_assets.drains.totals import GROUP
from ilyama_protocol.canonical import canonical_json
from ilyama_protocol.identifiers import id_at
from ilyama_protocol.intake.datapoints import OWNER_KIND, PROVENANCE, SOURCE, DatapointKind
from ilyama_protocol.intake.outcomes import CurrentValue
from ilyama_protocol.moments import utc
from ilyama_resources.postgres import Transaction
from ilyama_resources.postgres.current_values import CurrentValueRecord
from ilyama_resources.postgres.drains import Drain
from ilyama_resources.postgres.ledger import LedgerTotal

POLICY = "latest"


def close_drain(tx: Transaction, drain: Drain, seal: Seal, *, served_instances: int) -> None:
    """Write everything that a drain changes in Postgres, and mark it done."""
    tx.devices.register(seal.newcomers, auto=True)
    tx.registries.ensure_components(done.device_id for done in seal.states)
    tx.registries.ensure_keys(seal.keys)
    tx.devices.advance(
        ((done.device_id, done.state) for done in seal.states), drain_id=drain.drain_id
    )
    for totals in seal.ledger:
        tx.ledger.add(_ledger_totals(drain, totals))
    _advance_current_values(tx, drain, seal, served_instances=served_instances)
    tx.drains.close(drain.drain_id)


def _advance_current_values(
    tx: Transaction, drain: Drain, seal: Seal, *, served_instances: int
) -> None:
    touched = {
        (device.device_id, value.source_table)
        for device in seal.current
        for instances in device.values.values()
        for value in instances.values()
    }
    tx.current_values.stop_serving(seal.crowded)
    unserved = tx.current_values.unserved(touched)
    tx.current_values.advance(_records(drain, seal, unserved))
    crowded = tx.current_values.crowded(touched - unserved, limit=served_instances)
    tx.current_values.stop_serving(crowded)


def _records(
    drain: Drain, seal: Seal, unserved: set[tuple[str, str]]
) -> Iterator[CurrentValueRecord]:
    now = datetime.now(UTC)
    for device in seal.current:
        for key, instances in device.values.items():
            for instance, value in instances.items():
                if (device.device_id, value.source_table) not in unserved:
                    yield _record(drain, device.device_id, key, instance, value, now)


def _record(
    drain: Drain, device_id: str, key: str, instance: str, value: CurrentValue, now: datetime
) -> CurrentValueRecord:
    metric = value.kind is DatapointKind.METRIC
    identity = canonical_json([OWNER_KIND, device_id, key, instance, PROVENANCE])
    return CurrentValueRecord(
        identity=sha256(identity.encode()).hexdigest()[:32],
        owner_kind=OWNER_KIND,
        owner_id=device_id,
        key=key,
        instance=instance,
        provenance=PROVENANCE,
        kind=value.kind.value,
        value_double=value.value if metric else None,  # type: ignore[arg-type]
        value_text=None if metric else value.value,  # type: ignore[arg-type]
        ts=utc(value.ts),
        source=SOURCE,
        policy=POLICY,
        contributors=contributors(value),
        updated_at=now,
        source_table=value.source_table,
        drain_id=drain.drain_id,
    )


def contributors(value: CurrentValue) -> str:
    """What a current value rests on: with one source, the datapoint it is."""
    datapoint_id = id_at(value.ts, value.series)
    return f'[{{"source":"{SOURCE}","datapoint_id":"{datapoint_id}"}}]'


def _ledger_totals(drain: Drain, encoded: bytes) -> Iterator[LedgerTotal]:
    """The totals as records of a drain."""
    if not encoded:
        return
    for row in pa.ipc.open_stream(encoded).read_all().to_pylist():
        group = [row[name] for name in GROUP]
        sums = [row[f"{name}_sum"] for name in ROW_COUNTS]
        counted = (drain.day, drain.origin, row["count_all"])
        yield LedgerTotal._make((drain.drain_id, *group, *counted, *sums))
