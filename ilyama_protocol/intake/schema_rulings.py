"""What is ruled on the batches of one device: by their schemas, the policies and the pauses.

Everything it goes by is pinned when the drain is planned. A schema that its lineage has accepted
costs a look into a dictionary; only a new one is classified, but not with each batch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace as replaced

from ilyama_protocol.governance.bindings import (
    DEFERRED,
    USUAL,
    Actions,
    Binding,
    mirrored,
)
from ilyama_protocol.governance.classification import Columns, SchemaClass, SchemaDiff
from ilyama_protocol.governance.rules import DeviceRules, ProjectRules
from ilyama_protocol.governance.ruling import Course, Ruling, course_of_accepted, rule_on
from ilyama_protocol.intake.accepted_before import AcceptedBefore, under_one_key
from ilyama_protocol.intake.lineage_rulings import (
    FAILURES_THAT_OPEN_THE_CIRCUIT,
    PauseReason,
    StagingReason,
    TableBatch,
)
from ilyama_protocol.intake.state import BoundSchema, LineageState


class Question(NamedTuple):
    """Why a schema needs a review."""

    schema_class: SchemaClass
    diff: SchemaDiff
    last_accepted: str | None


class Compared(NamedTuple):
    """How a schema that is new to its lineage compares with what was accepted and approved.

    `actions` are what its columns inherit from that, None where all are the usual ones.
    """

    question: Question
    ruling: Ruling
    actions: Actions | None
    approved: bool


class ComparedForReview(NamedTuple):
    """A question as it is asked now, and how its schema compared when it came."""

    question: Question
    when_it_came: Compared

    @property
    def is_bound(self) -> bool:
        """Whether approvals have bound all of its columns, and it changes nothing of theirs.

        It may lack some: what was approved may have come after it.
        """
        came, diff = self.when_it_came, self.question.diff
        is_mapped = came.question.schema_class is SchemaClass.COMPATIBLE_MAPPED
        is_like_them = not replaced(diff, dropped=()).breaks
        return is_mapped and came.ruling.course.accepts_schema and is_like_them


class Ruled(NamedTuple):
    """What happens to a batch.

    `binding` says what becomes of its columns; `accepts` whether its schema is accepted with it,
    and `by_policy` whether nobody had approved it before.
    """

    binding: Binding
    staged_for: StagingReason | None = None
    accepts: bool = False
    by_policy: bool = False
    question: Question | None = None


class SchemaRulings:
    """The rulings on one device."""

    def __init__(
        self,
        device: DeviceRules | None = None,
        project: ProjectRules | None = None,
        *,
        circuit_opens_at: int = FAILURES_THAT_OPEN_THE_CIRCUIT,
    ) -> None:
        self.circuit_opens_at = circuit_opens_at
        self._device = device or DeviceRules()
        self._project = project or ProjectRules()
        self._lapsed = {*self._device.lapsed}
        self._refused = {
            (table, schema_hash)
            for table, hashes in self._device.rejected.items()
            for schema_hash in {*hashes} - self._approvals(table).keys()
        }
        self._pauses = {
            table: {PauseReason(reason) for reason in reasons}
            for table, reasons in self._device.pauses.items()
            if reasons
        }

    @property
    def project_id(self) -> str | None:
        """The project that the device belongs to."""
        return self._device.project_id

    def holds_telemetry(self, source_table: str) -> bool:
        """Whether telemetry waits whatever its schema: for a pause, or behind what waits already.

        Of two values of a key at one moment the first stays, so batches must not overtake.
        """
        return source_table in self._pauses or source_table in self._device.backlog

    def pause(self, source_table: str, reason: PauseReason) -> None:
        """Pause a lineage from the next batch on."""
        self._pauses.setdefault(source_table, set()).add(reason)
        self._lapsed.discard(source_table)

    def resumes(self, source_table: str) -> bool:
        """Whether an accepted schema ends a pause that nobody looks after any more; told once."""
        if source_table not in self._lapsed:
            return False
        self._lapsed.discard(source_table)
        return True

    def rule(
        self,
        batch: TableBatch,
        lineage: LineageState,
        *,
        columns: Columns | None,
        received_at: int,
        replayed: bool = False,
    ) -> Ruled:
        """What happens to a batch; `columns` is None while they are not known.

        One that is `replayed` came before others that were decided: what it finds bound is what
        was bound when it came.
        """
        accepted = lineage.accepted
        binding = None if accepted is None else accepted.get(batch.schema_hash)
        if binding is None or (self._refused and self._is_refused(batch)):
            return self._rule_on_new(batch, lineage, columns, received_at)
        if replayed:
            return Ruled(binding.at(received_at), self._course(batch).staged_for)
        if binding.actions is not None:
            now = self._caught_up(batch, lineage, binding, since=received_at)
            return Ruled(now, self._course(batch).staged_for, accepts=now is not binding)
        return Ruled(binding, self._course(batch).staged_for) if self._pauses else Ruled(binding)

    def binding_now(self, batch: TableBatch, lineage: LineageState, *, received_at: int) -> Binding:
        """What becomes of the columns of rows that are released."""
        known = lineage.accepted_schemas().get(batch.schema_hash)
        if (names := self._named_later(batch, lineage, known, received_at)) is not None:
            return Binding.approved(received_at, mirrored(names))
        if known is not None:
            return known.at(received_at)
        actions = self._approvals(batch.source_table).get(batch.schema_hash)
        return Binding.approved(received_at, actions)

    def _named_later(
        self, batch: TableBatch, lineage: LineageState, known: Binding | None, received_at: int
    ) -> list[str] | None:
        """The only columns that rows show which came before these were announced and approved.

        None where that needs no saying: they came later, some like them were shown already, the
        approval itself names columns, or there is none.
        """
        schema = lineage.schemas.get(batch.schema_hash)
        if schema is None or received_at >= schema.holds_from or _binds_before(schema, known):
            return None
        names_some = self._approvals(batch.source_table).get(batch.schema_hash, {}) is not None
        return None if names_some else [column.name for column in schema.columns]

    def approved_hashes(self, source_table: str) -> Collection[str]:
        """The schemas of a table that were approved."""
        return self._approvals(source_table).keys()

    def named_keys(self, source_table: str, lineage: LineageState | None) -> frozenset[str]:
        """The datapoint keys that were chosen for columns of a table by name."""
        accepted = {} if lineage is None else lineage.accepted_schemas()
        chosen = [binding.actions for binding in accepted.values()]
        chosen += [*self._approvals(source_table).values(), self._project.of(source_table).bound]
        actions = (action for named in chosen if named for action in named.values())
        return frozenset(action.key for action in actions if action.key is not None)

    def _accepted_now(
        self, source_table: str, lineage: LineageState, received_at: int
    ) -> dict[str, Binding]:
        """What a lineage has accepted, with all that was decided of it since."""
        return {
            schema_hash: self._caught_up(
                _Schema(source_table, schema_hash), lineage, binding, since=received_at
            )
            for schema_hash, binding in lineage.accepted_schemas().items()
            if (source_table, schema_hash) not in self._refused
        }

    def _is_refused(self, schema: TableBatch) -> bool:
        """Whether a person said no, and nobody yes; it may have been accepted before that."""
        return (schema.source_table, schema.schema_hash) in self._refused

    def _course(self, batch: TableBatch) -> Course:
        return course_of_accepted(paused=batch.source_table in self._pauses)

    def _approvals(self, source_table: str) -> Mapping[str, Actions | None]:
        own = self._device.approved.get(source_table, {})
        return {**self._project.of(source_table).approved, **own}

    def _caught_up(
        self, schema: TableBatch, lineage: LineageState, binding: Binding, *, since: int
    ) -> Binding:
        """A binding with what was decided meanwhile of columns that were left for later.

        One whose key another column of the schema has stays left: elsewhere it may be free.
        """
        if not (left := [*binding.deferred, *self._named_since(schema, binding)]):
            return binding
        said = self._said_of(schema, lineage, left)
        told = {name: said[name] for name in left if said.get(name, DEFERRED) != DEFERRED}
        taken = under_one_key(schema.source_table, (binding.actions or {}) | told)
        decided = {name: action for name, action in told.items() if name not in taken}
        return binding.deciding(decided, since=since) if decided else binding

    def _named_since(self, schema: TableBatch, binding: Binding) -> list[str]:
        """The columns of a schema that its approval names, and did not when it was bound."""
        if not binding.only_named:
            return []
        approved = self._approvals(schema.source_table).get(schema.schema_hash) or {}
        return [name for name in approved if name not in (binding.actions or {})]

    def _said_of(
        self, schema: TableBatch, lineage: LineageState, columns: Sequence[str]
    ) -> Actions:
        """What approvals say of columns: that of the schema, else those of the table, in order."""
        table, named = schema.source_table, schema.schema_hash
        approvals = self._approvals(table)
        if named in approvals:
            actions = approvals[named]
            return mirrored(columns) if actions is None else actions
        said = dict(self._project.of(table).bound)
        for other, actions in self._device.approved.get(table, {}).items():
            bound = lineage.schemas.get(other)
            names = () if bound is None else (column.name for column in bound.columns)
            said |= mirrored(names) if actions is None else actions
        return said

    def _rule_on_new(
        self,
        batch: TableBatch,
        lineage: LineageState,
        columns: Columns | None,
        received_at: int,
    ) -> Ruled:
        known = lineage.accepted_schemas().get(batch.schema_hash)
        if known is not None and not self._is_refused(batch):
            return Ruled(known, self._course(batch).staged_for, accepts=True)
        compared = self.compare(batch, lineage, columns=columns, received_at=received_at)
        course = compared.ruling.course
        if course.asks_for_review:
            return Ruled(USUAL, course.staged_for, question=compared.question)
        if compared.approved:
            actions = self._approvals(batch.source_table)[batch.schema_hash]
            binding = Binding.approved(received_at, actions)
            return Ruled(binding, course.staged_for, accepts=True)
        binding = Binding(received_at, compared.actions)
        return Ruled(binding, course.staged_for, accepts=True, by_policy=True)

    def compare_for_review(
        self,
        batch: TableBatch,
        lineage: LineageState,
        *,
        columns: Columns | None,
        received_at: int,
    ) -> ComparedForReview:
        """How a schema compares once the rows are released that were staged with approved ones."""

        def beside(approved: dict[str, Binding]) -> Compared:
            known = lineage.accepted_schemas() | approved
            told = replaced(lineage, accepted=known)
            return self.compare(batch, told, columns=columns, received_at=received_at)

        as_good = self._as_good_as_accepted(batch.source_table, lineage)
        older = {name: replaced(binding, holds_from=-1) for name, binding in as_good.items()}
        return ComparedForReview(beside(as_good).question, beside(older))

    def _as_good_as_accepted(self, source_table: str, lineage: LineageState) -> dict[str, Binding]:
        """What a lineage has announced and was approved since: its next rows accept it."""
        approvals, accepted = self._approvals(source_table), lineage.accepted_schemas()
        return {
            named: Binding.approved(schema.holds_from, approvals[named])
            for named, schema in lineage.schemas.items()
            if named in approvals and named not in accepted
        }

    def compare(
        self,
        batch: TableBatch,
        lineage: LineageState,
        *,
        columns: Columns | None,
        received_at: int,
    ) -> Compared:
        """How a schema that its lineage has not accepted compares with those that it has."""
        rules = self._project.of(batch.source_table)
        accepted = self._accepted_now(batch.source_table, lineage, received_at)
        before = AcceptedBefore(batch.source_table, lineage, accepted, rules)
        schema = before.compared_with(
            columns,
            is_first=lineage.first_schema in (None, batch.schema_hash),
            approved=batch.schema_hash in self._approvals(batch.source_table),
            rejected=self._is_refused(batch),
        )
        ruling = rule_on(schema, rules.policy, paused=batch.source_table in self._pauses)
        question = Question(ruling.schema_class, schema.diff, before.last)
        return Compared(question, ruling, before.inherited_by(columns), schema.approved)


def _binds_before(schema: BoundSchema, known: Binding | None) -> bool:
    """Whether a binding says by itself what rows show that came before the columns did."""
    return known is not None and (known.actions is not None or known.holds_from < schema.holds_from)


class _Schema(NamedTuple):
    """A table and one of its schemas."""

    source_table: str
    schema_hash: str
