"""Accepted schemas: by projects, whose devices share them, and by devices that have no project."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Row,
    and_,
    case,
    exists,
    func,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from ilyama_protocol.governance.bindings import Actions, Binding
from ilyama_protocol.governance.reviews import OPEN, ReviewState
from ilyama_protocol.intake.lineage_rulings import StagingReason
from ilyama_resources.postgres.copying import copied
from ilyama_resources.postgres.governance.table_schemas import Columns, TableSchemas
from ilyama_resources.postgres.pairs import these
from ilyama_resources.postgres.schema import (
    DEVICE,
    SCHEMA_BINDING,
    SCHEMA_REVIEW,
    STAGED_TOTAL,
)

_actions = msgspec.json.Decoder(Actions)


class ScopeKind(StrEnum):
    """Who shares a binding."""

    PROJECT = "project"
    DEVICE = "device"


class BindingScope(NamedTuple):
    """A project, or a device that has none."""

    scope_kind: str
    scope_id: str

    @classmethod
    def of(cls, device_id: str, project_id: str | None) -> BindingScope:
        """Where what is approved for a device holds."""
        if project_id is None:
            return cls(ScopeKind.DEVICE, device_id)
        return cls(ScopeKind.PROJECT, project_id)


class StoredBinding(NamedTuple):
    """A schema that was accepted; `approved` by a person, not by a policy.

    It is bound since `bound_at`; an approval that replaced what a policy bound came later.
    """

    scope: BindingScope
    source_table: str
    schema_hash: str
    holds_from: int
    actions: Actions | None
    columns: Columns | None
    approved: bool
    bound_at: datetime


class PolicyAcceptance(NamedTuple):
    """A schema that a policy accepted for a device of a project, or for one that has none."""

    project_id: str | None
    source_table: str
    schema_hash: str
    binding: Binding
    device_id: str = ""

    @property
    def scope(self) -> BindingScope:
        """Where it is remembered."""
        return BindingScope.of(self.device_id, self.project_id)

    @property
    def awaited_by(self) -> tuple[str, str, str]:
        """The device, table and schema of rows that may wait for it."""
        return self.device_id, self.source_table, self.schema_hash


_KEY = [SCHEMA_BINDING.c[n] for n in ("scope_kind", "scope_id", "source_table", "schema_hash")]


class Bindings:
    """The accepted schemas."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def of(
        self, scopes: Iterable[BindingScope], *, approved_only: bool = False
    ) -> list[StoredBinding]:
        """What is bound in the given scopes, in the order in which it was decided or accepted.

        What still keeps pauses is not.
        """
        c, review = SCHEMA_BINDING.c, SCHEMA_REVIEW.c
        wanted = [c.holding.is_(False), *([c.review_id.is_not(None)] if approved_only else ())]
        query = (
            select(*_KEY, c.holds_from, c.actions, c.review_id, c.bound_at)
            .select_from(SCHEMA_BINDING.outerjoin(SCHEMA_REVIEW, review.review_id == c.review_id))
            .where(tuple_(c.scope_kind, c.scope_id).in_(these(scopes)), *wanted)
            .order_by(func.coalesce(review.decided_at, c.bound_at), *_KEY)
        )
        rows = self._connection.execute(query).all()
        places = {(row.source_table, row.schema_hash) for row in rows}
        columns = TableSchemas(self._connection).of_tables(places)
        return [_binding(row, columns.get((row.source_table, row.schema_hash))) for row in rows]

    def bind(
        self,
        scope: BindingScope,
        source_table: str,
        schema_hash: str,
        *,
        actions: Actions | None,
        holds_from: int,
        holding: bool,
        review_id: int,
    ) -> None:
        """Bind what was approved; it replaces what a policy, or a held approval, bound before.

        What a policy had bound keeps its place among those that say what affinities columns have;
        a held approval had none.
        """
        statement = insert(SCHEMA_BINDING).values(
            scope_kind=scope.scope_kind,
            scope_id=scope.scope_id,
            source_table=source_table,
            schema_hash=schema_hash,
            actions=_text(actions),
            holds_from=holds_from,
            holding=holding,
            review_id=review_id,
            bound_at=datetime.now(UTC),
        )
        new = ("actions", "holds_from", "holding", "review_id")
        values = {name: statement.excluded[name] for name in new}
        was = SCHEMA_BINDING.c
        since = case((was.holding, statement.excluded.bound_at), else_=was.bound_at)
        self._connection.execute(
            statement.on_conflict_do_update(index_elements=_KEY, set_=values | {"bound_at": since})
        )

    def decide(self, review_id: int, actions: Actions | None) -> bool:
        """Change what an approval says of columns; False where it binds no more, or not yet."""
        c = SCHEMA_BINDING.c
        statement = update(SCHEMA_BINDING).values(actions=_text(actions))
        found = statement.where(c.review_id == review_id, c.holding.is_(False))
        return bool(self._connection.execute(found).rowcount)

    def accept(self, accepted: Iterable[PolicyAcceptance]) -> None:
        """Remember what policies accepted; what is bound already stays as it is.

        A device of a project of which rows wait for the schema has that for itself, too: it says
        nothing of the rows that wait of others.
        """
        found = [*accepted]
        awaited = self._awaited(found)
        own = [a._replace(project_id=None) for a in found if a.awaited_by in awaited]
        now = datetime.now(UTC)
        rows = [
            (*a.scope, a.source_table, a.schema_hash, *_told(a.binding), False, None, now)
            for a in (*found, *own)
        ]
        if not rows:
            return
        incoming = copied(self._connection, SCHEMA_BINDING, rows)
        names = [column.name for column in incoming.columns]
        first = select(incoming).order_by(incoming.c.holds_from)
        statement = insert(SCHEMA_BINDING).from_select(names, first)
        self._connection.execute(statement.on_conflict_do_nothing())

    def _awaited(self, accepted: Iterable[PolicyAcceptance]) -> set[tuple[str, str, str]]:
        """The devices, tables and schemas of which rows wait for a review."""
        lineages = [a.awaited_by[:2] for a in accepted]
        if not lineages:
            return set()
        c = STAGED_TOTAL.c
        query = select(c.device_id, c.source_table, c.schema_hash).where(
            c.staging_reason == StagingReason.SCHEMA_REVIEW,
            tuple_(c.device_id, c.source_table).in_(these(lineages)),
        )
        rows = self._connection.execute(query)
        return {(device_id, table, schema_hash) for device_id, table, schema_hash in rows}


def _told(binding: Binding) -> tuple[str | None, int]:
    return _text(binding.actions), binding.holds_from


def _text(actions: Actions | None) -> str | None:
    return None if actions is None else msgspec.json.encode(actions).decode()


def is_approved(of: FromClause, *, holding: bool = False) -> ColumnElement[bool]:
    """Whether the schema of a line was approved for its device, or in the device's project.

    An approval that is `holding` leaves open what rows cannot do without.
    """
    bound = SCHEMA_BINDING.c
    return _is_bound(of, bound.review_id.is_not(None), bound.holding.is_(holding))


def is_accepted(of: FromClause) -> ColumnElement[bool]:
    """Whether it was approved, or a policy accepted it and nobody refused it to the device."""
    bound = SCHEMA_BINDING.c
    of_device = bound.scope_kind == ScopeKind.DEVICE
    by_policy = _is_bound(of, of_device, bound.review_id.is_(None), bound.holding.is_(False))
    return or_(is_approved(of), and_(by_policy, ~_is_rejected(of)))


def is_refused(of: FromClause) -> ColumnElement[bool]:
    """Whether a person rejected the schema of a line, and nobody approved it."""
    return and_(_is_rejected(of), ~is_approved(of))


def _is_rejected(of: FromClause) -> ColumnElement[bool]:
    """Whether the last word on the schema of a line was a rejection."""
    refusal = SCHEMA_REVIEW.alias("refusal").c
    same = (refusal[n] == of.c[n] for n in ("device_id", "source_table", "schema_hash"))
    return exists().where(*same, is_last_refusal(refusal))


def is_last_refusal(review: Any) -> ColumnElement[bool]:
    """Whether a review was rejected and nothing else decided since; asking again does not."""
    newer = SCHEMA_REVIEW.alias("newer").c
    same = (newer[n] == review[n] for n in ("device_id", "source_table", "schema_hash"))
    is_newer = (newer.review_id > review.review_id, newer.state.not_in(OPEN))
    return and_(review.state == ReviewState.REJECTED, ~exists().where(*same, *is_newer))


def _is_bound(of: FromClause, *conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    bound, owner = SCHEMA_BINDING.c, DEVICE.alias("owner").c
    in_project = and_(bound.scope_kind == ScopeKind.PROJECT, bound.scope_id == owner.project_id)
    by_itself = and_(bound.scope_kind == ScopeKind.DEVICE, bound.scope_id == owner.device_id)
    return exists().where(
        owner.device_id == of.c.device_id,
        or_(in_project, by_itself),
        bound.source_table == of.c.source_table,
        bound.schema_hash == of.c.schema_hash,
        *conditions,
    )


def _binding(row: Row[Any], columns: Columns | None) -> StoredBinding:
    return StoredBinding(
        BindingScope(row.scope_kind, row.scope_id),
        row.source_table,
        row.schema_hash,
        row.holds_from,
        None if row.actions is None else _actions.decode(row.actions),
        columns,
        row.review_id is not None,
        row.bound_at,
    )
