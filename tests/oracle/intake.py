"""From messages in arrival order to tables."""

import hashlib
from collections import Counter
from collections.abc import Mapping
from itertools import groupby
from operator import attrgetter
from typing import Any

from tests.oracle.announcements import Announcements
from tests.oracle.canonical import columns_text, content, pk_hash
from tests.oracle.datapoints import Datapoints
from tests.oracle.device_tables import DeviceTables
from tests.oracle.gaps import Numbers
from tests.oracle.governance import Governance
from tests.oracle.instants import microseconds, utc_day
from tests.oracle.predicates import is_count, is_uuid7, legal_table
from tests.oracle.records import (
    Event,
    LedgerLine,
    RawBatch,
    RejectedBatch,
    Review,
    RowChange,
    SchemaObservation,
    TelemetrySample,
)
from tests.oracle.rows import RowKey, RowMemory
from tests.oracle.scanner import SourceObject
from tests.oracle.staging import REASONS, Aside, AsideSample, Columns, Lineage, Staging, misfits
from tests.oracle.telemetry import TelemetryMemory
from tests.oracle.topics import Address, parse_topic
from tests.oracle.validation import Verdict, has_own_columns, judge

_BATCHES = ("rows", "telemetry")


class Oracle:
    """The platform's whole memory, fed one message at a time."""

    def __init__(
        self,
        *,
        auto_register: bool = True,
        registry: Mapping[tuple[str, str], str] | None = None,
        served_instances: int = 1000,
        projects: Mapping[str, str] | None = None,
        approves_all: bool = False,
    ) -> None:
        """Start empty.

        Args:
            auto_register: whether an unknown device is welcome.
            registry: device ids by topic slug and device name.
            served_instances: up to how many instances the current values of a table are served.
            projects: the projects of devices that belong to one.
            approves_all: whether every schema was approved beforehand.
        """
        self._auto_register = auto_register
        self._registry = dict(registry or {})
        self._served_instances = served_instances
        self._not_before: dict[str, int] = {}
        self._announced = Announcements()
        self.staging = Staging()
        self._governance = Governance(self.staging, projects, approves_all=approves_all)
        self._memory = RowMemory()
        self._telemetry = TelemetryMemory()
        self._numbers = Numbers()
        self._datapoints = Datapoints()
        self.device_tables = DeviceTables(self._memory.rank)
        self._raw: list[RawBatch] = []
        self._rejected: list[RejectedBatch] = []
        self._changes: list[RowChange] = []
        self._samples: list[TelemetrySample] = []
        self._observations: list[SchemaObservation] = []
        self._ledger: list[LedgerLine] = []

    def feed(self, event: Event) -> None:
        """Take the next message."""
        device_id = self._device_of(parse_topic(event.topic))
        self._take(event, device_id, received_at=self._effective(device_id, event))

    def replay(self, event: Event) -> None:
        """Take a message that was rejected before; it keeps its moment."""
        device_id = self._device_of(parse_topic(event.topic))
        self._take(event, device_id, received_at=event.received_at_us, origin="rejection")

    def _take(
        self, event: Event, device_id: str | None, *, received_at: int, origin: str = "live"
    ) -> None:
        address = parse_topic(event.topic)
        self._raw.append(RawBatch(event.topic, device_id, received_at, event.payload))
        line = LedgerLine(
            received_at=received_at,
            topic=event.topic,
            device_id=device_id,
            source_table=None,
            kind=address.kind,
            batch_id=None,
            payload_sha256=hashlib.sha256(event.payload).hexdigest(),
            outcome="kept",
            origin=origin,
        )
        is_sync = address.kind != "device"
        self._ledger.append(self._decided(line, event.payload) if is_sync else line)
        lineage = (str(device_id), str(self._ledger[-1].source_table))
        self._announced.forget(lineage, accepted=self._governance.kept(lineage))

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Every table as dictionaries, in order of arrival."""
        return {
            "raw_batches": [row._asdict() for row in self._raw],
            "rejected_batches": [row._asdict() for row in self._rejected],
            "row_changes": [row._asdict() for row in self._changes],
            "staged_rows": [row._asdict() for row in self.staging.rows],
            "schema_observations": [row._asdict() for row in self._observations],
            "telemetry_samples": [row._asdict() for row in self._samples],
            "key_conflicts": [
                row._asdict()
                for memory in (self._memory, self._telemetry, self._datapoints)
                for row in memory.conflicts()
            ],
            "batch_ledger": [row._asdict() for row in self._ledger],
            "metric_datapoint": [row._asdict() for row in self._datapoints.metric],
            "state_datapoint": [row._asdict() for row in self._datapoints.state],
            "quarantined_datapoints": [row._asdict() for row in self._datapoints.quarantined],
            "current_value": [row._asdict() for row in self._datapoints.current()],
        }

    def reviews(self) -> list[Review]:
        """The schemas that a person has to look at, in the order in which they came up."""
        return list(self._governance.reviews)

    def reset_sequence(self, device_id: str, source_table: str) -> None:
        """Let the numbers of a table's telemetry begin anew with what comes next."""
        self._telemetry.begin_era(device_id, source_table)
        self._numbers.begin_era((device_id, "telemetry", source_table))

    def gaps(self) -> list[dict[str, Any]]:
        """The numbers of journals and telemetry that never came."""
        return [gap._asdict() for gap in self._numbers.gaps()]

    @property
    def out_of_window(self) -> int:
        """How many values were too old or too far ahead to give a datapoint."""
        return self._datapoints.out_of_window

    def served_current_values(self) -> list[dict[str, Any]]:
        """The current values without those of lineages with too many instances."""
        return [row._asdict() for row in self._datapoints.served(self._served_instances)]

    def _device_of(self, address: Address) -> str | None:
        if address.root is None:
            return None
        slug, name = address.root
        own_name = f"{slug}/{name}" if slug else name
        return self._registry.get(address.root, own_name if self._auto_register else None)

    def _effective(self, device_id: str | None, event: Event) -> int:
        """The platform's clock made monotone per device; every message of a device counts."""
        if device_id is None:
            return event.received_at_us
        landed = event.received_at_us
        received_at = max(landed, self._not_before.get(device_id, landed))
        self._not_before[device_id] = received_at + 1 + len(event.payload) // 40
        return received_at

    def _decided(self, line: LedgerLine, payload: bytes) -> LedgerLine:
        verdict = judge(line.kind, payload, registered=line.device_id is not None)
        table = verdict.document.get("source_table")
        if verdict.is_readable and legal_table(table):
            line = line._replace(source_table=table)
        if verdict.code is None and line.kind == "telemetry":
            return self._telemetry_line(line, verdict, payload)
        if verdict.code is not None:
            return self._rejected_line(line, verdict, payload)
        if line.kind == "rows":
            return self._taken_line(line, verdict.document)
        if line.kind == "observe":
            self._observe(line, verdict.document, observed_at=verdict.document["observed_at"])
        return line._replace(outcome="handled")

    def _observe(
        self, line: LedgerLine, document: SourceObject, *, observed_at: str | None = None
    ) -> None:
        """List a schema that a device spoke of; only batches make its columns known."""
        place = (str(line.device_id), document["source_table"], document["schema_hash"])
        columns = document["schema_columns"]["columns"] if has_own_columns(document) else None
        self._observations.append(
            SchemaObservation(
                *place,
                source=str(line.kind),
                columns=None if columns is None else columns_text(columns),
                is_new=place[2] not in self._announced.recalled(place[:2]),
                observed_at=None if observed_at is None else microseconds(observed_at),
                received_at=line.received_at,
                day=utc_day(line.received_at),
            )
        )

    def _telemetry_line(self, line: LedgerLine, verdict: Verdict, payload: bytes) -> LedgerLine:
        """Checks 19 to 21, which need to know what came before."""
        batch, device_id = verdict.document, str(line.device_id)
        outcome = self._telemetry.outcome(device_id, batch)
        if outcome.endswith("batch_seq"):
            refused = verdict._replace(code=outcome, json_path="$.batch_seq")
            return self._rejected_line(line, refused, payload)
        line = line._replace(batch_id=batch["batch_id"].lower(), batch_seq=batch["batch_seq"])
        if outcome == "new":
            sequence = (device_id, "telemetry", batch["source_table"])
            self._numbers.accept(sequence, batch["batch_seq"])
        affinities, rows = _affinities(self._columns_of(line, batch)), len(batch["rows"])
        waits = self._telemetry_waits(line, batch) if outcome == "new" else None
        asides = [
            AsideSample(
                waits or "",
                line,
                _sample(line, batch, index),
                batch["rows"][index]["fields"],
                affinities,
            )
            for index in range(rows if outcome == "new" else 0)
        ]
        if waits is not None:
            for aside in asides:
                self.staging.set_sample_aside(aside)
            told = _outcome(Counter({waits: rows}))
            return line._replace(**told, rows_received=rows)
        for aside in asides:
            self._shown_sample(aside)
        return line._replace(
            outcome="accepted" if outcome == "new" else "duplicate",
            rows_received=rows,
            rows_new=rows if outcome == "new" else 0,
            rows_duplicate=0 if outcome == "new" else rows,
            rows_conflict=rows if outcome == "conflict" else 0,
        )

    def _telemetry_waits(self, line: LedgerLine, batch: SourceObject) -> str | None:
        """Why a batch of telemetry waits: as one of rows, or behind what waits already."""
        reason = self._ruled(line, batch)
        lineage = (str(line.device_id), batch["source_table"])
        return reason or ("lineage_paused" if self.staging.waits(lineage) else None)

    def _ruled(self, line: LedgerLine, batch: SourceObject) -> str | None:
        lineage = (str(line.device_id), batch["source_table"])
        known = self._announced.recalled(lineage)
        return self._governance.staging_reason(lineage, batch["schema_hash"], known)

    def _rejected_line(self, line: LedgerLine, verdict: Verdict, payload: bytes) -> LedgerLine:
        rows = verdict.document.get("rows") if verdict.is_readable else None
        count = len(rows) if isinstance(rows, list) else 0
        code = str(verdict.code)
        self._rejected.append(
            RejectedBatch(
                code=code,
                json_path=verdict.json_path,
                topic=line.topic,
                device_id=line.device_id,
                source_table=line.source_table,
                payload=payload,
                received_at=line.received_at,
            )
        )
        self._number_rejected(line, verdict)
        is_named = line.kind in _BATCHES and verdict.has_batch_id
        is_numbered = line.kind == "telemetry" and verdict.sends("batch_seq", is_count)
        return line._replace(
            batch_id=verdict.document["batch_id"].lower() if is_named else None,
            batch_seq=verdict.document["batch_seq"] if is_numbered else None,
            outcome="rejected",
            code=code,
            rows_received=count,
            rows_rejected=count,
        )

    def release(self, *, retried: frozenset[Lineage] = frozenset()) -> None:
        """Show what was set aside and is held by nothing any more."""
        freed = self.staging.freed(self._memory.rank, retried=retried)
        for line, asides in groupby(freed, key=attrgetter("line")):
            outcomes = Counter(
                self._shown(aside) if isinstance(aside, Aside) else self._shown_sample(aside)
                for aside in asides
            )
            self._ledger.append(_released_line(line, outcomes))

    def _number_rejected(self, line: LedgerLine, verdict: Verdict) -> None:
        """Whatever is wrong with a batch, its numbers count when they are legal."""
        batch = verdict.document
        if line.device_id is None:
            return
        if line.kind == "telemetry" and line.source_table and verdict.sends("batch_seq", is_count):
            number, sequence = batch["batch_seq"], (line.device_id, "telemetry", line.source_table)
            self._numbers.reject(sequence, number, number)
        ends = ("first_commit_seq", "last_commit_seq")
        are_told = all(verdict.sends(name, is_count) for name in ends)
        if line.kind == "rows" and are_told and verdict.sends("journal_epoch", is_uuid7):
            journal = (line.device_id, "rows", batch["journal_epoch"].lower())
            self._numbers.reject(journal, *(batch[name] for name in ends))

    def _taken_line(self, line: LedgerLine, batch: SourceObject) -> LedgerLine:
        line = line._replace(batch_id=batch["batch_id"].lower())
        columns = self._columns_of(line, batch)
        waits = self._ruled(line, batch)
        outcomes = Counter(
            self._take_row(line, batch, index=index, columns=columns, waits=waits)
            for index in range(len(batch["rows"]))
        )
        return line._replace(
            **_outcome(outcomes),
            rows_received=outcomes.total(),
            rows_duplicate=outcomes["duplicate"] + outcomes["conflict"],
            rows_conflict=outcomes["conflict"],
        )

    def _columns_of(self, line: LedgerLine, batch: SourceObject) -> Columns | None:
        """What is known of a schema from the first valid batch that spelled it out."""
        lineage = (str(line.device_id), batch["source_table"])
        schema, named = batch.get("schema_columns"), batch["schema_hash"]
        if schema is not None and named not in self._announced.recalled(lineage):
            self._observe(line, batch)
            told = {column["name"]: column for column in schema["columns"]}
            self._announced.add(lineage, named, told)
        return self._announced.columns_of(lineage, named)

    def _take_row(
        self,
        line: LedgerLine,
        batch: SourceObject,
        *,
        index: int,
        columns: Columns | None,
        waits: str | None,
    ) -> str:
        sent = batch["rows"][index]
        pk, row = sent["pk"], sent.get("row")
        key = RowKey(
            device_id=str(line.device_id),
            source_table=batch["source_table"],
            journal_epoch=batch["journal_epoch"].lower(),
            source_pk_hash=pk_hash(pk),
            commit_seq=sent["commit_seq"],
        )
        outcome = self._memory.outcome(key, content(sent["op"], row))
        if outcome != "new":
            return outcome
        self._numbers.accept((key.device_id, "rows", key.journal_epoch), key.commit_seq)
        late = self._memory.is_late(key, came_at=line.received_at)
        change = _row_change(key, line, batch=batch, index=index, late=late)
        aside = Aside(waits or "", line, change, pk, row, columns)
        if waits is not None:
            self.staging.set_aside(aside)
            return aside.reason
        outcome = self._shown(aside)
        self.staging.count(aside, failed=outcome != "new")
        return outcome

    def _shown_sample(self, aside: AsideSample) -> str:
        self._samples.append(aside.change)
        self._datapoints.sample(aside.change, fields=aside.fields, affinities=aside.affinities)
        return "new"

    def _shown(self, aside: Aside) -> str:
        """Show a decided row, or set it aside when that cannot be."""
        if misfits(aside.pk, aside.row, aside.columns):
            self.staging.set_aside(aside._replace(reason="materialization_failed"))
            return "materialization_failed"
        self._changes.append(aside.change)
        affinities = _affinities(aside.columns)
        self._datapoints.observe(aside.change, pk=aside.pk, row=aside.row, affinities=affinities)
        self.device_tables.observe(aside.change, row=aside.row, affinities=affinities)
        return "new"


def _affinities(columns: Columns | None) -> dict[str, str] | None:
    if columns is None:
        return None
    return {name: column["decl_type_affinity"] for name, column in columns.items()}


def _outcome(outcomes: Counter[str]) -> dict[str, Any]:
    """What became of a batch, from what became of its rows."""
    reasons = [reason for reason in REASONS if outcomes[reason]]
    staged = sum(outcomes[reason] for reason in reasons)
    told: dict[str, Any] = {"rows_new": outcomes["new"], "rows_staged": staged}
    if outcomes["new"]:
        return told | {"outcome": "accepted"}
    if not reasons:
        return told | {"outcome": "duplicate"}
    return told | {"outcome": "staged", "code": reasons[0]}


def _released_line(line: LedgerLine, outcomes: Counter[str]) -> LedgerLine:
    told = line._replace(**_outcome(outcomes), rows_received=outcomes.total(), origin="staged")
    return told._replace(rows_duplicate=0, rows_conflict=0)


def _row_change(
    key: RowKey, line: LedgerLine, *, batch: SourceObject, index: int, late: bool
) -> RowChange:
    sent = batch["rows"][index]
    row = sent.get("row")
    return RowChange(
        *key,
        op=sent["op"],
        pk=sent["pk"].source,
        row=None if row is None else row.source,
        schema_hash=batch["schema_hash"],
        late=late,
        synthetic=False,
        batch_id=str(line.batch_id),
        row_index=index,
        received_at=line.received_at,
        day=utc_day(line.received_at),
    )


def _sample(line: LedgerLine, batch: SourceObject, index: int) -> TelemetrySample:
    sent = batch["rows"][index]
    row_id = sent.get("row_id")
    return TelemetrySample(
        device_id=str(line.device_id),
        source_table=batch["source_table"],
        batch_id=str(line.batch_id),
        batch_seq=batch["batch_seq"],
        row_index=index,
        row_id=None if row_id is None else row_id.lower(),
        ts=microseconds(sent["ts"]),
        fields=sent["fields"].source,
        schema_hash=batch["schema_hash"],
        received_at=line.received_at,
        day=utc_day(line.received_at),
    )
