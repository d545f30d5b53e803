"""The platform in memory: the real engine and encoder, with lists for tables and plain look-ups.

What Spark, Delta and Postgres do for a drain is done here by loops, so that thousands of drains
can be compared with the oracle in seconds.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ilyama_assets.drains.encoding import Encoder
from ilyama_assets.tables import CURRENT_VALUE, INTAKE_TABLES, KEY_CONFLICTS
from ilyama_protocol.intake.datapoints import OWNER_KIND, PROVENANCE, SOURCE
from ilyama_protocol.intake.engine import Device, IntakeEngine
from ilyama_protocol.intake.history import (
    BatchNeed,
    History,
    KnownPayload,
    NewestChange,
    RowKey,
    StoredRow,
)
from ilyama_protocol.intake.outcomes import CurrentValue, Message, Origin
from ilyama_protocol.intake.state import DeviceState, decode_state, encode_state
from ilyama_protocol.topics import parse_topic
from tests.oracle import Event
from tests.tables import Row, plain_rows


class MemoryPlatform:
    """Drains messages into lists."""

    def __init__(self) -> None:
        self.tables: dict[str, list[Row]] = {contract.name: [] for contract in INTAKE_TABLES}
        self._states: dict[str, bytes] = {}
        self._current: dict[tuple[str, str, str], CurrentValue] = {}
        self._drains = 0

    def drain(self, events: Sequence[Event]) -> None:
        """Take one drain of messages in arrival order."""
        self._drains += 1
        by_device: dict[str | None, list[Message]] = {}
        for position, event in enumerate(events):
            message = Message(
                f"segment-{self._drains}",
                position,
                event.topic,
                event.payload,
                event.received_at_us,
            )
            by_device.setdefault(parse_topic(event.topic).own_device_id, []).append(message)
        for device_id, messages in by_device.items():
            self._decide(device_id, messages)

    def current_values(self) -> list[Row]:
        """The current values, shaped like their table."""
        rows = []
        for (device_id, key, instance), value in self._current.items():
            metric = value.kind == "metric"
            rows.append(
                dict.fromkeys(CURRENT_VALUE.schema.names)
                | {
                    "owner_kind": OWNER_KIND,
                    "owner_id": device_id,
                    "key": key,
                    "instance": instance,
                    "provenance": PROVENANCE,
                    "kind": value.kind.value,
                    "value_double": value.value if metric else None,
                    "value_text": None if metric else value.value,
                    "ts": value.ts,
                    "source": SOURCE,
                    "policy": "latest",
                }
            )
        return rows

    def _decide(self, device_id: str | None, messages: Sequence[Message]) -> None:
        engine = self._engine(device_id, None)
        for message in messages:
            engine.decide(message)
        if engine.decisions.needs:
            engine = self._engine(device_id, self._look_up(device_id, engine.decisions.needs))
            for message in messages:
                engine.decide(message)
        self._store(device_id, engine)

    def _engine(self, device_id: str | None, history: History | None) -> IntakeEngine:
        stored = self._states.get(device_id or "")
        state = DeviceState() if stored is None else decode_state(stored)
        return IntakeEngine(Device(device_id), state, history=history)

    def _store(self, device_id: str | None, engine: IntakeEngine) -> None:
        encoder = Encoder(self._drains, Origin.LIVE)
        encoded = encoder.encode(engine.decisions.release())
        if engine.decisions.conflicts:
            encoded[KEY_CONFLICTS.name] = encoder.conflicts(
                engine.decisions.conflicts,
                device_id=device_id,
                since=engine.decisions.conflicts_since,
            )
        for name, table in encoded.items():
            self.tables[name] += plain_rows(pa.table(table))
        if device_id is not None:
            self._states[device_id] = encode_state(engine.state_after(self._drains))
            for key, of_key in engine.current.items():
                for instance, value in of_key.items():
                    self._current[device_id, key, instance] = value

    def _look_up(self, device_id: str | None, needs: Sequence[BatchNeed]) -> History:
        wanted = {need.payload_sha256 for need in needs}
        after = min(need.after_drain for need in needs)
        payloads = [
            KnownPayload(
                line["payload_sha256"],
                line["source_table"],
                line["batch_id"],
                line["rows_received"],
            )
            for line in self.tables["batch_ledger"]
            if line["device_id"] == device_id
            and line["payload_sha256"] in wanted
            and line["kind"] == "rows"
            and line["outcome"] in ("accepted", "duplicate")
            and line["rows_conflict"] == 0
            and line["drain_id"] > after
        ]
        changes = [
            row
            for row in self.tables["row_changes"]
            if row["device_id"] == device_id and row["drain_id"] > after
        ]
        asked = {(need.source_table, pk_hash) for need in needs for pk_hash in need.pk_hashes}
        keys = [
            RowKey(c["source_table"], c["journal_epoch"], c["source_pk_hash"], c["commit_seq"])
            for c in changes
        ]
        return History.of(
            stored=[StoredRow(k, c["op"], c["row"]) for k, c in zip(keys, changes, strict=True)],
            newest=[
                NewestChange(k.source_table, k.source_pk_hash, k.journal_epoch, k.commit_seq)
                for k in keys
                if (k.source_table, k.source_pk_hash) in asked
            ],
            payloads=payloads,
        )
