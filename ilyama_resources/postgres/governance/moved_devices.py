"""What becomes of the governance of a device that moves to another project, or out of one.

Schemas that its lineages have accepted stay accepted: its state has them. What is still open
follows it, so that whoever decides it decides for the project in which the device is now; what was
approved but for a deferred key is asked again there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, exists, func, literal, or_, select, update
from sqlalchemy.dialects.postgresql import insert

from ilyama_protocol.governance.reviews import OPEN, ReviewState
from ilyama_protocol.intake.lineage_rulings import StagingReason
from ilyama_resources.postgres.current_instances import Lineage
from ilyama_resources.postgres.governance.bindings import ScopeKind
from ilyama_resources.postgres.governance.reviews import holds
from ilyama_resources.postgres.schema import SCHEMA_BINDING, SCHEMA_REVIEW, STAGED_TOTAL

_B, _R, _S = SCHEMA_BINDING.c, SCHEMA_REVIEW.c, STAGED_TOTAL.c


class DeviceMove(NamedTuple):
    """A device that leaves one project for another; None is none."""

    device_id: str
    before: str | None
    after: str | None


class MovedDevices:
    """The reviews and approvals of devices that move; the caller governs alone."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def keep_approvals(self, move: DeviceMove) -> None:
        """Give the device for itself what it has been approved and rows still wait to be shown by.

        Without, they would wait for ever: nobody asks again about what was decided. It replaces
        what a policy, or a held approval, bound before.
        """
        if move.before is None:
            return
        waits = exists().where(
            _S.device_id == move.device_id,
            _S.staging_reason == StagingReason.SCHEMA_REVIEW,
            _S.source_table == _B.source_table,
            _S.schema_hash == _B.schema_hash,
        )
        own = {"scope_kind": literal(ScopeKind.DEVICE.value), "scope_id": literal(move.device_id)}
        values = [own.get(column.name, column) for column in SCHEMA_BINDING.columns]
        approved = (_of_project(_B, move.before), _B.review_id.is_not(None), _B.holding.is_(False))
        rows = select(*values).where(*approved, waits, ~_is_approved_in(move.after))
        statement = insert(SCHEMA_BINDING).from_select(SCHEMA_BINDING.columns.keys(), rows)
        new = ("actions", "holds_from", "holding", "review_id")
        self._connection.execute(
            statement.on_conflict_do_update(
                index_elements=list(SCHEMA_BINDING.primary_key),
                set_={name: statement.excluded[name] for name in new},
                where=or_(_B.holding, _B.review_id.is_(None)),
            )
        )

    def take_reviews_along(self, move: DeviceMove) -> list[Lineage]:
        """Let open reviews be decided in the new project; tell of which lineages there are any."""
        statement = (
            update(SCHEMA_REVIEW)
            .where(_R.device_id == move.device_id, _R.state.in_(OPEN))
            .values(project_id=move.after, action_version=_R.action_version + 1)
            .returning(_R.device_id, _R.source_table)
        )
        return [(device_id, table) for device_id, table in self._connection.execute(statement)]

    def held_approvals(self, move: DeviceMove) -> list[int]:
        """The approvals of elsewhere that keep the device paused: they are its last word so far."""
        newer = SCHEMA_REVIEW.alias("newer").c
        schema = ("device_id", "source_table", "schema_hash")
        same = (newer[name] == _R[name] for name in schema)
        query = select(_R.review_id).where(
            _R.device_id == move.device_id,
            _R.state == ReviewState.APPROVED,
            _R.project_id.is_distinct_from(move.after),
            *holds(_R),
            ~exists().where(*same, newer.review_id > _R.review_id),
        )
        return list(self._connection.scalars(query.order_by(_R.review_id)))

    def share_approvals(self, move: DeviceMove) -> list[Lineage]:
        """Answer what is open with what the new project has approved; tell of which lineages."""
        origin, bound = SCHEMA_REVIEW.alias("origin").c, SCHEMA_BINDING.alias("bound").c
        values = {
            **{name: origin[name] for name in ("decided_at", "decided_by", "note", "actions")},
            "state": ReviewState.APPROVED,
            "action_version": _R.action_version + 1,
            "shared_from": func.nullif(origin.review_id, _R.review_id),
            "project_id": move.after,
        }
        statement = (
            update(SCHEMA_REVIEW)
            .where(
                _R.device_id == move.device_id,
                or_(_R.state.in_(OPEN), and_(_R.state == ReviewState.APPROVED, *holds(_R))),
                *(bound[name] == _R[name] for name in ("source_table", "schema_hash")),
                _of_project(bound, move.after),
                bound.review_id == origin.review_id,
            )
            .values(values)
            .returning(_R.device_id, _R.source_table)
        )
        return [(device_id, table) for device_id, table in self._connection.execute(statement)]


def _of_project(binding: Any, project_id: str | None) -> ColumnElement[bool]:
    """Whether a binding is of a project; of none there is none."""
    is_projects: ColumnElement[bool] = binding.scope_kind == ScopeKind.PROJECT
    return and_(is_projects, binding.scope_id == project_id)


def _is_approved_in(project_id: str | None) -> ColumnElement[bool]:
    other = SCHEMA_BINDING.alias("other").c
    same = (other[name] == _B[name] for name in ("source_table", "schema_hash"))
    approved = (other.review_id.is_not(None), other.holding.is_(False))
    return exists().where(_of_project(other, project_id), *same, *approved)
