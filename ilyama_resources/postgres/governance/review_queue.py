"""What drains ask about schemas: many questions at once become reviews, as far as there is room.

A device may send ever new hashes. So that the list of reviews stays of use, only so many of one
lineage are open at a time; the other schemas are kept as questions until some are decided, and of
questions too there are only so many: beyond them, the staged rows tell what is to be asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    exists,
    func,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql

from ilyama_protocol.governance.reviews import OPEN, ReviewAsked, ReviewState
from ilyama_resources.postgres.copying import copied, shown
from ilyama_resources.postgres.current_instances import Lineage
from ilyama_resources.postgres.governance.bindings import is_accepted, is_approved, is_last_refusal
from ilyama_resources.postgres.governance.later_questions import LaterQuestions
from ilyama_resources.postgres.governance.reviews import (
    FIRST_VERSION,
    NEW_FIELDS,
    PAUSED_FOR_REVIEW,
    evidence_text,
    govern_alone,
    holds,
)
from ilyama_resources.postgres.governance.unasked_schemas import UnaskedSchemas
from ilyama_resources.postgres.pairs import these
from ilyama_resources.postgres.schema import (
    DEVICE,
    LINEAGE_PAUSE,
    SCHEMA_QUESTION,
    SCHEMA_REVIEW,
)

MOST_OPEN = 100
"""So many reviews of one lineage are open at a time, unless the settings say otherwise."""

MOST_WAITING = 1_000
"""So many questions of one lineage are kept."""

_R, _Q = SCHEMA_REVIEW.c, SCHEMA_QUESTION.c
_SCHEMA = ("device_id", "source_table", "schema_hash")


class ReviewQueue:
    """The questions of drains, and the reviews that they become."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._unasked = UnaskedSchemas(connection)
        self._later = LaterQuestions(connection)

    def add(
        self,
        asked: Iterable[ReviewAsked],
        *,
        drain_id: int,
        most: int = MOST_OPEN,
        waiting: int = MOST_WAITING,
    ) -> int:
        """Take what drains ask for, and pause those lineages; tell how many reviews are new.

        A schema is asked about once: not while a review of it is open, nor after a rejection; what
        a later question tells first, the review takes up. What was approved since the drain was
        planned is no question any more.
        """
        rows = [_asked_row(review, drain_id) for review in asked]
        if not rows:
            return 0
        govern_alone(self._connection)
        incoming = copied(self._connection, SCHEMA_QUESTION, rows)
        self._later.join(incoming)
        unanswered = ~is_approved(incoming)
        self._pause(select(incoming).where(unanswered).subquery())
        held, open_to_ask = (
            is_approved(incoming, holding=True),
            and_(unanswered, ~_is_asked(incoming)),
        )
        self._share(_first_of_each(incoming, and_(open_to_ask, held)))
        self._note(_first_of_each(incoming, and_(open_to_ask, ~held)), most=waiting)
        return self._fill(select(incoming.c.device_id, incoming.c.source_table), most=most)

    def fill(self, lineages: Iterable[Lineage], *, most: int) -> int:
        """Open reviews of what waits, where decisions have made room; tell how many."""
        some = these({*lineages})
        opened = self._fill(some, most=most)
        self._unasked.ask(some, most=MOST_WAITING)
        return opened + self._fill(some, most=most)

    def waiting(self, lineage: Lineage | None = None) -> int:
        """How many schemas wait for room, of one lineage or of all."""
        query = select(func.count()).select_from(SCHEMA_QUESTION)
        if lineage is not None:
            device_id, table = map(shown, lineage)
            query = query.where(_Q.device_id == device_id, _Q.source_table == table)
        return int(self._connection.scalar(query) or 0) + self._unasked.count(lineage)

    def _fill(self, lineages: Select[Any], *, most: int) -> int:
        some = lineages.distinct().subquery()
        device_id, table = some.c
        is_theirs = exists().where(_Q.device_id == device_id, _Q.source_table == table)
        places = (_place(_Q).label("place"), _open_reviews().label("opened"))
        waiting = select(*_Q, *places).where(is_theirs, ~is_accepted(SCHEMA_QUESTION)).subquery()
        chosen = select(waiting).where(waiting.c.place + waiting.c.opened <= most).subquery()
        opened = self._open(chosen)
        is_settled = or_(is_accepted(SCHEMA_QUESTION), _is_asked(SCHEMA_QUESTION))
        self._connection.execute(SCHEMA_QUESTION.delete().where(is_theirs, is_settled))
        return len(opened)

    def _note(self, new: Any, *, most: int) -> None:
        """Keep questions that are new, the first that came, as far as there is room for them."""
        names = [column.name for column in SCHEMA_QUESTION.columns]
        known = exists().where(*(_Q[name] == new.c[name] for name in _SCHEMA))
        place = _place(new.c).label("place")
        placed = select(new, place, _kept_of(new).label("kept")).where(~known).subquery()
        rows = select(*(placed.c[name] for name in names)).where(
            placed.c.place + placed.c.kept <= most
        )
        statement = postgresql.insert(SCHEMA_QUESTION).from_select(names, rows)
        self._connection.execute(statement.on_conflict_do_nothing())

    def _open(self, new: Any) -> list[int]:
        """Queue reviews of questions, numbered as the schemas came."""
        names = [*NEW_FIELDS, "opened_by", "project_id", "state", "action_version", "opened_at"]
        rows = (
            select(
                *(new.c[name] for name in [*NEW_FIELDS, "opened_by"]),
                DEVICE.c.project_id,
                literal(ReviewState.QUEUED.value),
                literal(FIRST_VERSION),
                literal(datetime.now(UTC)),
            )
            .select_from(new.outerjoin(DEVICE, DEVICE.c.device_id == new.c.device_id))
            .order_by(new.c.first_received_at, new.c.device_id, new.c.schema_hash)
        )
        statement = postgresql.insert(SCHEMA_REVIEW).from_select(names, rows)
        returning = statement.on_conflict_do_nothing().returning(_R.review_id)
        return list(self._connection.scalars(returning))

    def _share(self, new: Any) -> None:
        """Give lineages their part in an approval that keeps them paused, each once."""
        holder = SCHEMA_REVIEW.alias("holder")
        known = exists().where(
            *(_R[name] == new.c[name] for name in _SCHEMA),
            _R.state == ReviewState.APPROVED,
            *holds(_R),
        )
        ids = self._open(select(new).where(~known).subquery())
        decided = ("decided_at", "decided_by", "note", "actions")
        same = [holder.c[n] == _R[n] for n in ("project_id", "source_table", "schema_hash")]
        values = {"state": ReviewState.APPROVED, "shared_from": holder.c.review_id}
        self._connection.execute(
            update(SCHEMA_REVIEW)
            .where(_R.review_id.in_(ids), *same, *holds(holder.c), holder.c.shared_from.is_(None))
            .values(values | {name: holder.c[name] for name in decided})
        )

    def _pause(self, asked: Any) -> None:
        lineages = select(
            asked.c.device_id,
            asked.c.source_table,
            literal(PAUSED_FOR_REVIEW),
            literal(datetime.now(UTC)),
        ).distinct()
        names = ["device_id", "source_table", "reason", "since"]
        statement = postgresql.insert(LINEAGE_PAUSE).from_select(names, lineages)
        self._connection.execute(statement.on_conflict_do_nothing())


def _place(question: Any) -> ColumnElement[int]:
    """The place of a question among those of its lineage."""
    return func.row_number().over(
        partition_by=(question.device_id, question.source_table),
        order_by=(question.first_received_at, question.schema_hash),
    )


def _kept_of(new: Any) -> ColumnElement[int]:
    """How many questions of a lineage are kept already."""
    lineage = (_Q.device_id == new.c.device_id, _Q.source_table == new.c.source_table)
    return select(func.count()).select_from(SCHEMA_QUESTION).where(*lineage).scalar_subquery()


def _open_reviews() -> ColumnElement[int]:
    """How many reviews of a question's lineage are open."""
    lineage = (_R.device_id == _Q.device_id, _R.source_table == _Q.source_table)
    return (
        select(func.count())
        .select_from(SCHEMA_REVIEW)
        .where(*lineage, _R.state.in_(OPEN))
        .correlate(SCHEMA_QUESTION)
        .scalar_subquery()
    )


def _asked_row(review: ReviewAsked, drain_id: int) -> tuple[Any, ...]:
    columns = None if review.columns is None else msgspec.json.encode(review.columns).decode()
    values = {
        "device_id": review.device_id,
        "source_table": review.source_table,
        "schema_hash": review.schema_hash,
        "schema_class": review.schema_class.value,
        "columns": columns,
        "seen_columns": msgspec.json.encode(review.seen).decode(),
        "evidence": evidence_text(review.diff, review.last_accepted),
        "firmware_version": shown(review.firmware_version),
        "first_received_at": review.received_at,
        "opened_by": drain_id,
    }
    return tuple(values[column.name] for column in SCHEMA_QUESTION.columns)


def _first_of_each(incoming: Any, asked: ColumnElement[bool]) -> Any:
    """Of a schema that was asked about twice, the first."""
    schema = [incoming.c[name] for name in _SCHEMA]
    once = select(incoming).where(asked).distinct(*schema)
    return once.order_by(*schema, incoming.c.first_received_at).subquery()


def _is_asked(asked: Any) -> ColumnElement[bool]:
    """Whether there is a review already that somebody is to decide, or has rejected last."""
    same = (_R[name] == asked.c[name] for name in _SCHEMA)
    return exists().where(*same, or_(_R.state.in_(OPEN), is_last_refusal(_R)))
