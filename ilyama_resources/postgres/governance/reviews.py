"""Reviews of schemas, decided by people one at a time; how they are queued, is said elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Text,
    and_,
    bindparam,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    text,
    tuple_,
    update,
)

from ilyama_protocol.fingerprint import SchemaColumn
from ilyama_protocol.governance.bindings import Actions
from ilyama_protocol.governance.classification import SchemaDiff
from ilyama_protocol.governance.reviews import OPEN, ReviewState
from ilyama_protocol.intake.lineage_rulings import PauseReason
from ilyama_protocol.intake.schema_rulings import Question
from ilyama_resources.postgres.copying import copied, shown
from ilyama_resources.postgres.current_instances import Lineage
from ilyama_resources.postgres.governance.bindings import is_last_refusal
from ilyama_resources.postgres.governance.table_schemas import Columns, Place, TableSchemas
from ilyama_resources.postgres.paging import newest_first
from ilyama_resources.postgres.pairs import these
from ilyama_resources.postgres.schema import (
    DEVICE,
    LINEAGE_PAUSE,
    SCHEMA_BINDING,
    SCHEMA_REVIEW,
)

PAUSED_FOR_REVIEW = PauseReason.SCHEMA_REVIEW.value
FIRST_VERSION = 1
_LOCK = "SELECT pg_advisory_xact_lock(hashtext('ilyama schema governance'))"
_R = SCHEMA_REVIEW.c


def govern_alone(connection: Connection) -> None:
    """Let nobody else queue or decide reviews until the transaction ends."""
    connection.execute(text(_LOCK))


class Review(NamedTuple):
    """A review as it is kept."""

    review_id: int
    device_id: str
    source_table: str
    schema_hash: str
    project_id: str | None
    schema_class: str
    state: ReviewState
    action_version: int
    columns: tuple[SchemaColumn, ...] | None
    seen_columns: tuple[str, ...]
    evidence: dict[str, Any]
    firmware_version: str
    first_received_at: int
    opened_by: int
    opened_at: datetime
    started_at: datetime | None
    decided_at: datetime | None
    decided_by: str | None
    note: str | None
    actions: Actions | None
    shared_from: int | None

    @property
    def place(self) -> Place:
        """The table and the hash of its schema."""
        return self.source_table, self.schema_hash

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns that an approval names: those announced, else those seen in rows."""
        if self.columns is None:
            return self.seen_columns
        return tuple(column.name for column in self.columns)


class ReviewFilter(NamedTuple):
    """Which reviews are asked for; None asks for all."""

    state: ReviewState | None = None
    source_table: str | None = None
    project_id: str | None = None
    device_id: str | None = None


class Sharer(NamedTuple):
    """A review that shares what is decided of another, as far as many of them are looked at."""

    review_id: int
    device_id: str
    state: ReviewState
    firmware_version: str
    first_received_at: int


class Decision(NamedTuple):
    """What a person decided of a review."""

    state: ReviewState
    actor: str
    note: str | None = None
    actions: Actions | None = None


_FIELDS = [_R[name] for name in Review._fields]
NEW_FIELDS = [
    "device_id",
    "source_table",
    "schema_hash",
    "schema_class",
    "columns",
    "seen_columns",
    "evidence",
    "firmware_version",
    "first_received_at",
]


class Reviews:
    """The reviews of one platform."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def alone(self) -> None:
        """Let nobody else queue or decide reviews until the transaction ends."""
        govern_alone(self._connection)

    def reopen(self, review_id: int, *, actor: str, note: str | None) -> int:
        """Ask again about a schema that was decided; tell the number of the new review.

        It is for the project in which the device is now, and shows the columns that the other does.
        """
        told = f"asked again by {actor}"
        shows = literal(self._columns_shown(review_id), Text)
        copy = select(
            *(shows if name == "columns" else _R[name] for name in NEW_FIELDS),
            select(DEVICE.c.project_id).where(DEVICE.c.device_id == _R.device_id).scalar_subquery(),
            _R.opened_by,
            literal(ReviewState.QUEUED.value),
            literal(FIRST_VERSION),
            literal(datetime.now(UTC)),
            literal(shown(told if note is None else f"{told}: {note}")),
        ).where(_R.review_id == review_id)
        names = [
            *NEW_FIELDS,
            "project_id",
            "opened_by",
            "state",
            "action_version",
            "opened_at",
            "note",
        ]
        statement = insert(SCHEMA_REVIEW).from_select(names, copy).returning(_R.review_id)
        return int(self._connection.execute(statement).scalar_one())

    def find(self, review_id: int) -> Review | None:
        """A review by its number."""
        found = self._of(select(*_FIELDS).where(_R.review_id == review_id))
        return found[0] if found else None

    def _columns_shown(self, review_id: int) -> str | None:
        review = self.find(review_id)
        columns = None if review is None else review.columns
        return None if columns is None else msgspec.json.encode(columns).decode()

    def _of(self, query: Select[Any]) -> list[Review]:
        """Reviews, each with the columns of its schema.

        What was announced after a decision can be decided later, by name; of an open review they
        are its own, since nobody may approve what came in behind their back.
        """
        found = [_review(row) for row in self._connection.execute(query)]
        lacking = {r.place for r in found if r.columns is None and r.state not in OPEN}
        told = TableSchemas(self._connection).of_tables(lacking)
        return [r if r.state in OPEN else _told(r, told) for r in found]

    def is_open(self, device_id: str, source_table: str, schema_hash: str | None = None) -> bool:
        """Whether a schema of a lineage, or this one, waits for a decision."""
        lineage = [_R.device_id == device_id, _R.source_table == source_table]
        wanted = lineage if schema_hash is None else [*lineage, _R.schema_hash == schema_hash]
        return bool(self._connection.scalar(select(exists().where(*wanted, _R.state.in_(OPEN)))))

    def open_of_lineages(self, lineages: Iterable[Lineage]) -> list[Review]:
        """The open reviews of lineages, in order."""
        some = tuple_(_R.device_id, _R.source_table).in_(these(lineages))
        query = select(*_FIELDS).where(some, _R.state.in_(OPEN)).order_by(_R.review_id)
        return self._of(query)

    def open_beside(self, review: Review) -> list[Review]:
        """The open reviews of other schemas of a table that share what is decided of one."""
        table = and_(_R.source_table == review.source_table, _is_of_same_scope(review))
        query = select(*_FIELDS).where(table, _R.state.in_(OPEN)).order_by(_R.review_id)
        return self._of(query)

    def show_again(self, questions: Iterable[tuple[int, Question]]) -> None:
        """Show of open reviews how their schemas compare now; who has seen them looks again."""
        rows = [
            {
                "of": review_id,
                "schema_class": question.schema_class.value,
                "evidence": evidence_text(question.diff, question.last_accepted),
            }
            for review_id, question in questions
        ]
        statement = update(SCHEMA_REVIEW).where(_R.review_id == bindparam("of"))
        if rows:
            values = {"action_version": _R.action_version + 1}
            told: dict[str, Any] = {n: bindparam(n) for n in ("schema_class", "evidence")}
            self._connection.execute(statement.values(told | values), rows)

    def page(self, wanted: ReviewFilter, *, limit: int, before: int | None = None) -> list[Review]:
        """The next reviews below a number, the newest first."""
        query = newest_first(select(*_FIELDS), _R.review_id, before=before, limit=limit)
        return self._of(query.where(*narrowed(wanted)))

    def counts(self) -> dict[str, int]:
        """How many reviews are in each state."""
        rows = self._connection.execute(select(_R.state, func.count()).group_by(_R.state))
        return {state: count for state, count in rows}

    def start(self, review: Review, *, note: str | None) -> None:
        """Somebody looks at it."""
        self._connection.execute(
            update(SCHEMA_REVIEW)
            .where(_R.review_id == review.review_id)
            .values(
                state=ReviewState.IN_REVIEW,
                action_version=_R.action_version + 1,
                started_at=datetime.now(UTC),
                note=_noted(note),
            )
        )

    def decide(
        self, review_ids: Iterable[int], decision: Decision, *, by: int | None = None
    ) -> None:
        """Decide reviews as one of them was, or each for itself."""
        actions = decision.actions
        ids = list(review_ids)
        self._connection.execute(
            update(SCHEMA_REVIEW)
            .where(_R.review_id.in_(ids))
            .values(
                state=decision.state,
                action_version=_R.action_version + 1,
                decided_at=datetime.now(UTC),
                decided_by=shown(decision.actor),
                note=_noted(decision.note),
                actions=None if actions is None else msgspec.json.encode(actions).decode(),
                shared_from=None if by is None else func.nullif(literal(by), _R.review_id),
            )
        )

    def change_actions(self, approval: int, actions: Actions, *, note: str | None) -> None:
        """Change what an approval says of columns, in all reviews that it decided."""
        origin = func.coalesce(_R.shared_from, _R.review_id)
        self._connection.execute(
            update(SCHEMA_REVIEW)
            .where(origin == approval, _R.state == ReviewState.APPROVED)
            .values(
                action_version=_R.action_version + 1,
                note=_noted(note),
                actions=msgspec.json.encode(actions).decode(),
            )
        )

    def alike(self, review: Review) -> list[Sharer]:
        """All reviews that share what is decided of one, itself among them."""
        fields = [_R[name] for name in Sharer._fields]
        query = select(*fields).where(_shares_with(review)).order_by(_R.review_id)
        found = (Sharer(*row) for row in self._connection.execute(query))
        return [sharer._replace(state=ReviewState(sharer.state)) for sharer in found]

    def showing_columns(self, review: Review) -> int | None:
        """The first open review that shares what is decided of one and knows the columns."""
        shown_by = (_shares_with(review), _R.state.in_(OPEN), _R.columns.is_not(None))
        review_ids = select(_R.review_id).where(*shown_by).order_by(_R.review_id)
        return self._connection.scalars(review_ids.limit(1)).first()

    def resume(self, review: Review) -> list[Lineage]:
        """Lift the pause of the lineages that share an approval, where everything is decided.

        The newest review of a lineage speaks for it: in which order others are decided makes no
        difference. An approval does not wait for what was abandoned.
        """
        sharing = select(_R.device_id, _R.source_table).where(_shares_with(review))
        return self._lift(sharing, unless=(ReviewState.REJECTED,))

    def resume_closed(self, lineages: Iterable[Lineage]) -> list[Lineage]:
        """The same for lineages of which reviews were rejected or abandoned."""
        undecided = (ReviewState.REJECTED, ReviewState.ABANDONED)
        return self._lift(these(lineages), unless=undecided)

    def resume_lapsed(self, lineages: Iterable[Lineage]) -> list[Lineage]:
        """Lift the pause of lineages whose devices went back to a schema that was accepted.

        Only where nobody looks any more: no review is open, and the newest was not rejected.
        """
        rows = [(device_id, table, PAUSED_FOR_REVIEW, None, None) for device_id, table in lineages]
        if not rows:
            return []
        self.alone()
        incoming = copied(self._connection, LINEAGE_PAUSE, rows)
        returned = select(incoming.c.device_id, incoming.c.source_table)
        return self._lift(returned, unless=(ReviewState.REJECTED,))

    def lapsed(self, device_ids: Iterable[str]) -> list[Lineage]:
        """The lineages of devices that are paused for a review which nobody looks at any more."""
        pause = LINEAGE_PAUSE.c
        query = select(pause.device_id, pause.source_table).where(
            pause.device_id.in_(list(device_ids)),
            pause.reason == PAUSED_FOR_REVIEW,
            ~_is_held(ReviewState.REJECTED),
        )
        return [(device_id, table) for device_id, table in self._connection.execute(query)]

    def rejected(self, device_ids: Iterable[str]) -> list[tuple[str, str, str]]:
        """The devices, tables and hashes of schemas on which the last word was a rejection."""
        query = select(_R.device_id, _R.source_table, _R.schema_hash).where(
            _R.device_id.in_(list(device_ids)), is_last_refusal(_R)
        )
        rows = self._connection.execute(query)
        return [(device_id, table, schema_hash) for device_id, table, schema_hash in rows]

    def _lift(self, lineages: Select[Any], *, unless: Iterable[str]) -> list[Lineage]:
        pause, (device_id, table) = LINEAGE_PAUSE.c, lineages.subquery().c
        statement = (
            LINEAGE_PAUSE.delete()
            .where(
                pause.reason == PAUSED_FOR_REVIEW,
                exists().where(device_id == pause.device_id, table == pause.source_table),
                ~_is_held(*unless),
            )
            .returning(pause.device_id, pause.source_table)
        )
        return [(device_id, table) for device_id, table in self._connection.execute(statement)]


def evidence_text(diff: SchemaDiff, last_accepted: str | None) -> str:
    """How a schema compares with others, as it is kept."""
    return msgspec.json.encode({"diff": diff, "last_accepted": last_accepted}).decode()


def narrowed(wanted: ReviewFilter) -> list[ColumnElement[bool]]:
    """The conditions that a filter stands for."""
    named = wanted._asdict().items()
    return [_R[name] == shown(value) for name, value in named if value is not None]


def _noted(note: str | None) -> ColumnElement[str | None]:
    """A note in place of the one before, which stays when there is none."""
    return func.coalesce(None if note is None else shown(note), _R.note)


def _is_held(*states: str) -> ColumnElement[bool]:
    """Whether a paused lineage has an open review, or its newest is so, or a held approval."""
    pause, other = LINEAGE_PAUSE.c, SCHEMA_REVIEW.alias("other")
    newer = SCHEMA_REVIEW.alias("newer")
    is_newest = ~exists().where(
        newer.c.device_id == other.c.device_id,
        newer.c.source_table == other.c.source_table,
        newer.c.review_id > other.c.review_id,
    )
    held = and_(*holds(other.c))
    return exists().where(
        other.c.device_id == pause.device_id,
        other.c.source_table == pause.source_table,
        or_(other.c.state.in_(OPEN), and_(is_newest, or_(other.c.state.in_(states), held))),
    )


def holds(review: Any) -> list[ColumnElement[bool]]:
    """Whether the approval of a review, or that it shares, keeps lineages paused."""
    origin = func.coalesce(review.shared_from, review.review_id)
    return [exists().where(SCHEMA_BINDING.c.review_id == origin, SCHEMA_BINDING.c.holding)]


def _shares_with(review: Review) -> ColumnElement[bool]:
    """The reviews of one schema in one project; a device without a project is alone."""
    same = and_(_R.source_table == review.source_table, _R.schema_hash == review.schema_hash)
    return and_(same, _is_of_same_scope(review))


def _is_of_same_scope(review: Review) -> ColumnElement[bool]:
    """The reviews of the project of one, or of its device that has none."""
    if review.project_id is None:
        return and_(_R.device_id == review.device_id, _R.project_id.is_(None))
    return _R.project_id == review.project_id


def _told(review: Review, columns: Mapping[Place, Columns]) -> Review:
    known = columns.get(review.place)
    return review if known is None else review._replace(columns=known)


_columns = msgspec.json.Decoder(tuple[SchemaColumn, ...])
_names = msgspec.json.Decoder(tuple[str, ...])
_actions = msgspec.json.Decoder(Actions)


def _review(row: Any) -> Review:
    kept = Review(*row)
    return kept._replace(
        state=ReviewState(kept.state),
        columns=None if row.columns is None else _columns.decode(row.columns),
        seen_columns=_names.decode(row.seen_columns),
        evidence=msgspec.json.decode(row.evidence),
        actions=None if row.actions is None else _actions.decode(row.actions),
    )
