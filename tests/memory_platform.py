"""The platform in memory: the real engine and encoder, with lists for tables and plain look-ups.

What Spark, Delta and Postgres do for a drain is done here by loops, so that thousands of drains
can be compared with the oracle in seconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ilyama_assets.drains.encoding import Encoder
from ilyama_assets.drains.orders import RejectedNumbers, rejected_numbers
from ilyama_assets.drains.staged_reading import staged_batches
from ilyama_assets.tables import CURRENT_VALUE, INTAKE_TABLES, KEY_CONFLICTS, STAGED_ROWS
from ilyama_protocol.governance.agreement import settled
from ilyama_protocol.governance.bindings import Actions
from ilyama_protocol.governance.policies import NO_PROJECT, Policy
from ilyama_protocol.governance.reviews import ReviewAsked
from ilyama_protocol.governance.rules import DeviceRules, ProjectRules, TableRules
from ilyama_protocol.intake.datapoints import OWNER_KIND, PROVENANCE, TELEMETRY_SOURCE
from ilyama_protocol.intake.engine import Device, IntakeEngine
from ilyama_protocol.intake.history import (
    BatchNeed,
    History,
    KnownBatch,
    KnownPayload,
    Need,
    NewestChange,
    PointKey,
    RowKey,
    StoredPoint,
    StoredRow,
    TelemetryNeed,
)
from ilyama_protocol.intake.lineage_rulings import (
    DECIDED,
    FAILURES_THAT_OPEN_THE_CIRCUIT,
    HELD_BY,
    StagingReason,
)
from ilyama_protocol.intake.outcomes import CurrentValue, Message, Origin
from ilyama_protocol.intake.schema_rulings import SchemaRulings
from ilyama_protocol.intake.sequences import Island, without
from ilyama_protocol.intake.state import BoundSchema, DeviceState, decode_state, encode_state
from ilyama_protocol.topics import parse_topic
from tests.oracle import Event
from tests.tables import Row, plain_rows

Lineage = tuple[str, str]
_ARRIVAL = ("received_at", "row_index")
_BATCH = (
    "batch_id",
    "source_table",
    "batch_seq",
    "payload_sha256",
    "rows_received",
    "drain_id",
    "segment_id",
    "position",
    "received_at",
)


class MemoryPlatform:
    """Drains messages into lists."""

    def __init__(
        self,
        projects: Mapping[str, str] | None = None,
        *,
        policy: Policy | None = None,
        failures: int = FAILURES_THAT_OPEN_THE_CIRCUIT,
    ) -> None:
        """Start empty; devices that `projects` does not name have none, and go by `policy`.

        So many rows in a row that fit no table open a circuit.
        """
        self._projects = projects or {}
        self._failures = failures
        self._rules = {NO_PROJECT: ProjectRules(policy or Policy())}
        self.tables: dict[str, list[Row]] = {contract.name: [] for contract in INTAKE_TABLES}
        self._states: dict[str, bytes] = {}
        self._shelf: dict[tuple[str, str, str], BoundSchema] = {}
        """Schemas that are no longer part of states, as they were first announced."""
        self._current: dict[tuple[str, str, str], CurrentValue] = {}
        self._drains = 0
        self.pauses: dict[str, dict[str, set[str]]] = {}
        self.approved: dict[str, dict[str, Actions | None]] = {}
        """What was approved for all devices: by table and hash."""
        self._staged: list[pa.Table] = []
        self.out_of_window = 0
        self.reviews: dict[tuple[str, str, str], ReviewAsked] = {}
        self._gaps: dict[tuple[str, str, str, int], list[Island]] = {}
        self._refused: list[RejectedNumbers] = []

    def pause(self, lineage: Lineage, reason: str = "operator") -> None:
        """Pause a lineage for a reason."""
        self.pauses.setdefault(lineage[0], {}).setdefault(lineage[1], set()).add(reason)

    def resume(self, lineage: Lineage, reason: str = "operator") -> None:
        """Take a reason away."""
        self.pauses.get(lineage[0], {}).get(lineage[1], set()).discard(reason)

    def reset_sequence(self, lineage: Lineage) -> None:
        """Let the numbers of a table's telemetry begin anew with the next drain."""
        state = decode_state(self._states[lineage[0]])
        state.begin_era(lineage[1], self._drains)
        self._states[lineage[0]] = encode_state(state)

    def release(self, *, retried: frozenset[Lineage] = frozenset()) -> None:
        """Release what was staged and is held by nothing any more, in one drain."""
        self._drains += 1
        by_device: dict[str, list[pa.Table]] = {}
        free = [[self._is_free(row, retried) for row in rows.to_pylist()] for rows in self._staged]
        staged, self._staged = self._staged, []
        for rows, chosen in zip(staged, free, strict=True):
            is_free = pa.array(chosen, pa.bool_())
            self._staged.append(rows.filter(pc.invert(is_free)))
            for device_id in pc.unique(rows["device_id"]).to_pylist():
                of_device = pc.and_(is_free, pc.equal(rows["device_id"], device_id))
                by_device.setdefault(device_id, []).append(rows.filter(of_device))
        for device_id, parts in by_device.items():
            found = pa.concat_tables(parts).sort_by([(name, "ascending") for name in _ARRIVAL])
            if found.num_rows:
                self._release(device_id, found)

    def _is_free(self, row: Row, retried: frozenset[Lineage]) -> bool:
        lineage, reason = (row["device_id"], row["source_table"]), row["staging_reason"]
        if reason == StagingReason.MATERIALIZATION_FAILED and lineage not in retried:
            return False
        paused = self.pauses.get(lineage[0], {}).get(lineage[1], set())
        return not paused & HELD_BY[StagingReason(reason)]

    def _release(self, device_id: str, rows: pa.Table) -> None:
        places = rows.select(["source_table", "schema_hash"]).to_pylist()
        wanted = {(place["source_table"], place["schema_hash"]) for place in places}
        self._states[device_id] = encode_state(self._state(device_id, wanted))
        engine = self._engine(device_id, None, Origin.STAGED)
        for found in staged_batches(device_id, rows, rank=engine.decisions.state.rank):
            engine.release(found)
        if engine.decisions.needs:
            history = self._look_up(device_id, engine.decisions.needs)
            engine = self._engine(device_id, history, Origin.STAGED)
            for found in staged_batches(device_id, rows, rank=engine.decisions.state.rank):
                engine.release(found)
        self._store(device_id, engine)

    def _backlog(self, device_id: str) -> list[str]:
        """The tables of a device of which rows wait for their turn."""
        return [
            row["source_table"]
            for rows in self._staged
            for row in rows.to_pylist()
            if row["device_id"] == device_id and self._waits_its_turn(row)
        ]

    def _waits_its_turn(self, row: Row) -> bool:
        if row["staging_reason"] == StagingReason.SCHEMA_REVIEW:
            return row["schema_hash"] in self.approved.get(row["source_table"], {})
        return bool(row["staging_reason"] == StagingReason.LINEAGE_PAUSED)

    def drain(self, events: Sequence[Event], origin: Origin = Origin.LIVE) -> None:
        """Take one drain of messages in arrival order; replayed ones keep their moments."""
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
        self._take(by_device, origin)

    def _take(self, by_device: Mapping[str | None, Sequence[Message]], origin: Origin) -> None:
        """Decide all devices, again where they disagree, and keep what comes of it."""
        while True:
            engines = {name: self._decided(name, told, origin) for name, told in by_device.items()}
            claims = [c for engine in engines.values() for c in engine.decisions.schemas.claims]
            rules = settled(claims, self._rules)
            if rules is None:
                break
            self._rules = rules
        for device_id, engine in engines.items():
            self._store(device_id, engine)
        for claim in sorted(claims):
            project = self._rules.setdefault(claim.project_id, ProjectRules())
            table = project.tables.setdefault(claim.source_table, TableRules(Policy()))
            table.device_table = claim.affinities | table.device_table

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
                    "source": value.source,
                    "policy": "latest",
                }
            )
        return rows

    def device_table(self, source_table: str) -> dict[tuple[str, str], Row]:
        """The rows of the devices as they are now, by device and hash of the primary key."""
        newest: dict[tuple[str, str], Row] = {}
        for change in self.tables["row_changes"]:
            key = (change["device_id"], change["source_pk_hash"])
            if change["source_table"] == source_table and not change["late"]:
                newest[key] = max(newest.get(key, change), change, key=self._place)
        return {
            key: json.loads(change["row"])
            for key, change in newest.items()
            if change["op"] != "delete"
        }

    def _place(self, change: Row) -> tuple[int, int]:
        state = decode_state(self._states[change["device_id"]])
        return state.rank(change["journal_epoch"]), change["commit_seq"]

    def gaps(self) -> list[Row]:
        """The gaps of all sequences, each with how many rejected batches had its numbers."""
        names = ("device_id", "kind", "name", "era", "first_missing", "last_missing", "rejections")
        return [
            dict(zip(names, (*sequence, *gap, self._explained(sequence, gap)), strict=True))
            for sequence, gaps in self._gaps.items()
            for gap in gaps
        ]

    def _explained(self, sequence: tuple[str, str, str, int], gap: Island) -> int:
        return sum(
            (told.device_id, told.kind, told.name, told.era) == sequence
            and told.first <= gap[1]
            and told.last >= gap[0]
            for told in self._refused
        )

    def _number(self, device_id: str, engine: IntakeEngine) -> None:
        for change in engine.sequences:
            sequence = (device_id, change.kind.value, change.name, change.era)
            known = self._gaps.get(sequence, [])
            left = [part for gap in known for part in without(gap, change.covered)]
            self._gaps[sequence] = [*left, *change.opened]
        self._refused += map(rejected_numbers, engine.decisions.refused)

    def _decided(
        self, device_id: str | None, messages: Sequence[Message], origin: Origin
    ) -> IntakeEngine:
        engine = self._engine(device_id, None, origin)
        for message in messages:
            engine.decide(message)
        if engine.decisions.needs:
            history = self._look_up(device_id, engine.decisions.needs)
            engine = self._engine(device_id, history, origin)
            for message in messages:
                engine.decide(message)
        return engine

    def _engine(
        self, device_id: str | None, history: History | None, origin: Origin = Origin.LIVE
    ) -> IntakeEngine:
        wanted = {(table, named) for table, known in self.approved.items() for named in known}
        state = self._state(device_id, wanted)
        backlog = self._backlog(device_id or "")
        pauses = {table: [*reasons] for table, reasons in self._pauses_of(device_id)}
        project = self._projects.get(device_id or "")
        rules = DeviceRules(project, pauses, approved=self.approved, backlog=backlog)
        ruled = self._rules.get(project or "")
        rulings = SchemaRulings(rules, ruled, circuit_opens_at=self._failures)
        return IntakeEngine(
            Device(device_id), state, history=history, origin=origin, rulings=rulings
        )

    def _state(self, device_id: str | None, wanted: Iterable[tuple[str, str]]) -> DeviceState:
        """The state of a device, with what lies on the shelf of the schemas that are wanted."""
        stored = self._states.get(device_id or "")
        state = DeviceState() if stored is None else decode_state(stored)
        for table, schema_hash in wanted:
            found = self._shelf.get((device_id or "", table, schema_hash))
            if found is not None:
                state.lineage(table).schemas[schema_hash] = found
        return state

    def _pauses_of(self, device_id: str | None) -> Iterable[tuple[str, set[str]]]:
        return self.pauses.get(device_id or "", {}).items()

    def _store(self, device_id: str | None, engine: IntakeEngine) -> None:
        encoder = Encoder(self._drains, engine.decisions.origin)
        encoded = encoder.encode(engine.decisions.release())
        if engine.decisions.conflicts:
            encoded[KEY_CONFLICTS.name] = encoder.conflicts(
                engine.decisions.conflicts,
                device_id=device_id,
                since=engine.decisions.conflicts_since,
            )
        if (staged := encoded.get(STAGED_ROWS.name)) is not None:
            self._staged.append(staged.cast(STAGED_ROWS.schema))
        for table_name, reason, _ in engine.decisions.pauses:
            self.pause((device_id or "", table_name), reason)
        for (table_name, schema_hash), review in engine.decisions.schemas.reviews.items():
            named = (device_id or "", table_name, schema_hash)
            asked = self.reviews.get(named)
            self.reviews[named] = review if asked is None else asked.joined(review)
            self.pause((device_id or "", table_name), "schema_review")
        for place, bound in engine.decisions.schemas.shelved.items():
            self._shelf.setdefault((device_id or "", *place), bound)
        for name, table in encoded.items():
            self.tables[name] += plain_rows(pa.table(table))
        if device_id is not None:
            self._states[device_id] = encode_state(engine.state_after(self._drains))
            self._number(device_id, engine)
            for key, of_key in engine.current.items():
                for instance, value in of_key.items():
                    standing = self._current.setdefault((device_id, key, instance), value)
                    if value.outdoes(standing):
                        self._current[device_id, key, instance] = value
        self.out_of_window += engine.decisions.out_of_window

    def _look_up(self, device_id: str | None, needs: Sequence[Need]) -> History:
        rows = [need for need in needs if isinstance(need, BatchNeed)]
        history = self._look_up_rows(device_id, rows) if rows else History()
        telemetry = [need for need in needs if isinstance(need, TelemetryNeed)]
        history.batches = [b for need in telemetry for b in self._batches(device_id, need)]
        points = [p for need in telemetry for p in self._points(device_id, need)]
        history.points = {point.key: point for point in points}
        return history

    def _batches(self, device_id: str | None, need: TelemetryNeed) -> list[KnownBatch]:
        payloads = {
            (row["segment_id"], row["position"]): row["payload"]
            for row in self.tables["raw_batches"]
        }
        lines = [
            line
            for line in self.tables["batch_ledger"]
            if line["device_id"] == device_id
            and line["kind"] == "telemetry"
            and line["outcome"] in ("accepted", "staged")
            and line["drain_id"] > need.after_drain
        ]
        return [
            KnownBatch(*(line[name] for name in _BATCH))._replace(
                payload=payloads[line["segment_id"], line["position"]]
            )
            for line in lines
            if line["batch_id"] == need.batch_id
            or (line["source_table"], line["batch_seq"]) == (need.source_table, need.batch_seq)
        ]

    def _points(self, device_id: str | None, need: TelemetryNeed) -> list[StoredPoint]:
        return [
            StoredPoint(PointKey(table, row["key"], row["ts"]), row["value"])
            for table in ("metric_datapoint", "state_datapoint", "quarantined_datapoints")
            for row in self.tables[table]
            if (row["owner_id"], row["source"]) == (device_id, TELEMETRY_SOURCE)
            and row["ts"] in need.moments
            and row["drain_id"] > need.points_after
        ]

    def _look_up_rows(self, device_id: str | None, needs: Sequence[BatchNeed]) -> History:
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
            and line["origin"] in ("live", "rejection")
            and (line["outcome"] in ("accepted", "duplicate") or line["code"] in DECIDED)
            and line["rows_conflict"] == 0
            and line["drain_id"] > after
        ]
        changes = [
            row
            for row in (*self.tables["row_changes"], *self.tables["staged_rows"])
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
