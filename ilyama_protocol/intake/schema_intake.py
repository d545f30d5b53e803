"""Schemas of batches: what their columns are, what is ruled on them, and what comes of that."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import msgspec

from ilyama_protocol.contents import Contents
from ilyama_protocol.fingerprint import SchemaColumn
from ilyama_protocol.governance.agreement import Claim, Place
from ilyama_protocol.governance.bindings import Binding, shared_affinities
from ilyama_protocol.governance.reviews import ReviewAsked
from ilyama_protocol.intake.datapoints import affinities_of
from ilyama_protocol.intake.lineage_rulings import PauseReason, StagingReason, TableBatch
from ilyama_protocol.intake.outcomes import Arrival, ObservedSchema
from ilyama_protocol.intake.schema_rulings import Question, Ruled, SchemaRulings
from ilyama_protocol.intake.state import (
    MOST_UNACCEPTED,
    BoundSchema,
    DeviceState,
    LineageState,
)
from ilyama_protocol.intake.undecided_schemas import UndecidedSchemas


class DataBatch(TableBatch, Protocol):
    """A batch of rows or of telemetry, with what its rows say."""

    @property
    def schema_columns(self) -> tuple[SchemaColumn, ...] | None:
        """The columns, when the batch announces them."""

    @property
    def contents(self) -> Contents:
        """What the rows say."""


class Judged(NamedTuple):
    """The columns of a batch, None while they are not known, and what is ruled on it.

    `in_force` are they too, None when they were not known yet at the moment the batch came.
    """

    schema: BoundSchema | None
    ruled: Ruled
    in_force: BoundSchema | None

    @property
    def affinities(self) -> dict[str, str] | None:
        """The affinity of each column, None while they are not known."""
        return None if self.in_force is None else affinities_of(self.in_force)


class AcceptedByPolicy(NamedTuple):
    """A schema that nobody approved and a policy accepted."""

    source_table: str
    schema_hash: str
    binding: Binding


class SchemaIntake:
    """Judges the schemas of one device's batches, one after another."""

    def __init__(
        self,
        state: DeviceState,
        rulings: SchemaRulings,
        listed: Callable[[ObservedSchema], None],
        *,
        replayed: bool = False,
    ) -> None:
        """Judge by rulings; every schema that is met for the first time is listed.

        What is `replayed` has come before, while others were decided without it.
        """
        self._replayed = replayed
        self._released: set[tuple[str, str]] = set()
        self.reviews: dict[tuple[str, str], ReviewAsked] = {}
        self.accepted_by_policy: list[AcceptedByPolicy] = []
        self.resumed: list[str] = []
        self.claims: list[Claim] = []
        self.shelved: dict[tuple[str, str], BoundSchema] = {}
        """Schemas that were announced and are no longer part of the state, by table and hash."""
        self._undecided = UndecidedSchemas()
        self._state = state
        self._rulings = rulings
        self._listed = listed

    @property
    def project_id(self) -> str | None:
        """The project that the device belongs to."""
        return self._rulings.project_id

    def judge(self, arrival: Arrival, batch: DataBatch) -> Judged:
        """What happens to a batch; nothing is changed yet."""
        lineage = self._state.lineages.get(batch.source_table) or LineageState()
        schema, received_at = self._announced(arrival, batch, lineage), arrival.received_at
        ruled = self._undecided.ruled(batch, schema)
        if ruled is None:
            ruled = self._rulings.rule(
                batch,
                lineage,
                columns=None if schema is None else schema.columns,
                received_at=received_at,
                replayed=self._came_before(arrival),
            )
            self._undecided.remember(batch, schema, ruled)
        is_known = schema is not None and schema.holds_from <= received_at
        return Judged(schema, ruled, schema if is_known else None)

    def _came_before(self, arrival: Arrival) -> bool:
        """Whether later batches were decided already; one that is timed anew comes last."""
        return self._replayed and not arrival.message.timed_anew

    def _announced(
        self, arrival: Arrival, batch: DataBatch, lineage: LineageState
    ) -> BoundSchema | None:
        """The columns behind a batch's hash, as far as any batch has told them."""
        known = lineage.schemas.get(batch.schema_hash)
        if known is not None or batch.schema_columns is None:
            return known
        holds_from = arrival.received_at
        if self._came_before(arrival) and lineage.may_have_shown(batch.schema_hash):
            holds_from = max(holds_from, self._state.next_received_at or 0)
        return BoundSchema(holds_from, batch.schema_columns)

    def judge_telemetry(self, arrival: Arrival, batch: DataBatch) -> Judged:
        """The same for telemetry, which waits its turn behind what is staged already."""
        judged = self.judge(arrival, batch)
        ruled = judged.ruled
        if ruled.staged_for is None and self._rulings.holds_telemetry(batch.source_table):
            ruled = ruled._replace(staged_for=StagingReason.LINEAGE_PAUSED)
        return judged._replace(ruled=ruled)

    def judge_released(self, batch: TableBatch, *, received_at: int) -> Judged:
        """What becomes of the columns of rows that were staged and are released."""
        lineage = self._state.lineage(batch.source_table)
        binding = self._rulings.binding_now(batch, lineage, received_at=received_at)
        self._adopt_released(batch, lineage, binding, received_at)
        schema = lineage.schema_at(batch.schema_hash, received_at)
        return Judged(schema, Ruled(binding), schema)

    def _adopt_released(
        self, batch: TableBatch, lineage: LineageState, binding: Binding, received_at: int
    ) -> None:
        """Accept a schema with the rows released of it, from the first of them that came in."""
        self._undecided.forget(batch.source_table)
        accepted, place = _adopt(lineage), (batch.source_table, batch.schema_hash)
        if batch.schema_hash not in accepted:
            accepted[batch.schema_hash] = binding
            self._released.add(place)
        known = accepted[batch.schema_hash]
        if known.actions is None and binding.actions is not None:
            known = msgspec.structs.replace(binding, holds_from=known.holds_from)
            accepted[batch.schema_hash] = known
        if place in self._released and received_at < known.holds_from:
            accepted[batch.schema_hash] = msgspec.structs.replace(known, holds_from=received_at)

    def learn(self, arrival: Arrival, batch: DataBatch) -> None:
        """Take up the columns that a batch announces, which adds nothing else."""
        lineage = self._state.lineage(batch.source_table)
        self._bind(arrival, batch, self._announced(arrival, batch, lineage))
        self._shelve(batch.source_table, lineage)

    def _bind(self, arrival: Arrival, batch: TableBatch, schema: BoundSchema | None) -> None:
        """Let the columns behind a batch's hash hold, unless they do already."""
        lineage = self._state.lineage(batch.source_table)
        _adopt(lineage)
        if schema is not None and batch.schema_hash not in lineage.schemas:
            lineage.schemas[batch.schema_hash] = schema
            self._undecided.forget(batch.source_table)
            table, told = batch.source_table, batch.schema_hash
            self._listed(ObservedSchema(arrival, table, told, schema.columns, is_new=True))

    def _shelve(self, source_table: str, lineage: LineageState) -> None:
        """Keep the state small, however many schemas a device announces."""
        if len(lineage.schemas) <= MOST_UNACCEPTED:
            return
        shelved = lineage.shelve(self._rulings.approved_hashes(source_table))
        for schema_hash, bound in shelved.items():
            self.shelved.setdefault((source_table, schema_hash), bound)
            self._undecided.forget_one(source_table, schema_hash)

    def settle(self, arrival: Arrival, batch: DataBatch, judged: Judged) -> None:
        """Make what was judged part of the state."""
        lineage, ruled = self._state.lineage(batch.source_table), judged.ruled
        if ruled.accepts or lineage.first_schema is None:
            self._undecided.forget(batch.source_table)
        lineage.first_schema = lineage.first_schema or batch.schema_hash
        self._bind(arrival, batch, judged.schema)
        if ruled.accepts:
            _adopt(lineage)[batch.schema_hash] = ruled.binding
        self._shelve(batch.source_table, lineage)
        if ruled.by_policy:
            accepted = AcceptedByPolicy(batch.source_table, batch.schema_hash, ruled.binding)
            self.accepted_by_policy.append(accepted)
            self._claim(arrival, batch, judged)
        if ruled.question is not None:
            self._ask(arrival, batch, judged, ruled.question)
        elif self._rulings.resumes(batch.source_table):
            self.resumed.append(batch.source_table)

    def _claim(self, arrival: Arrival, batch: DataBatch, judged: Judged) -> None:
        if self.project_id is None or judged.schema is None:
            return
        message = arrival.message
        claim = Claim(
            Place(message.landed_at, message.segment_id, message.position),
            arrival.device_id or "",
            self.project_id,
            batch.source_table,
            shared_affinities(judged.schema.columns, judged.ruled.binding.actions),
        )
        self.claims.append(claim)

    def _ask(self, arrival: Arrival, batch: DataBatch, judged: Judged, question: Question) -> None:
        self._rulings.pause(batch.source_table, PauseReason.SCHEMA_REVIEW)
        place = (batch.source_table, batch.schema_hash)
        asked = self.reviews.get(place)
        if asked is None:
            self.reviews[place] = _review(arrival, batch, judged, question)
        elif asked.columns is None:
            self.reviews[place] = asked.joined(_review(arrival, batch, judged, question))


def _review(arrival: Arrival, batch: DataBatch, judged: Judged, question: Question) -> ReviewAsked:
    """The review that a batch asks for."""
    return ReviewAsked(
        device_id=arrival.device_id or "",
        source_table=batch.source_table,
        schema_hash=batch.schema_hash,
        schema_class=question.schema_class,
        received_at=arrival.received_at,
        firmware_version=arrival.firmware_version,
        columns=None if judged.schema is None else judged.schema.columns,
        seen=tuple(sorted(batch.contents.columns_seen())),
        diff=question.diff,
        last_accepted=question.last_accepted,
    )


def _adopt(lineage: LineageState) -> dict[str, Binding]:
    """The accepted schemas, from now on in the state itself."""
    lineage.accepted = lineage.accepted_schemas()
    return lineage.accepted
