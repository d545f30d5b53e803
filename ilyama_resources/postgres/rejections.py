"""Rejections and their life: rejected, explained, replayed, accepted or discarded."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple
from uuid import UUID

import pyarrow as pa
from sqlalchemy import (
    ColumnElement,
    Connection,
    Subquery,
    Table,
    case,
    func,
    literal,
    or_,
    select,
    true,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.sql.selectable import LateralFromClause

from ilyama_protocol.names import MAX_NAME, UNKNOWN_FIRMWARE
from ilyama_resources.postgres.copying import copied_arrow, shown
from ilyama_resources.postgres.schema import REJECTION, WAREHOUSE


class RejectionState(StrEnum):
    """Where a rejection is in its life; `replayed` means that a replay is under way."""

    REJECTED = "rejected"
    EXPLAINED = "explained"
    REPLAYED = "replayed"
    ACCEPTED = "accepted"
    DISCARDED = "discarded"


MOST_AT_ONCE: Final = 100_000
"""A larger group is explained, replayed or discarded part after part."""

OPEN_STATES: Final = (RejectionState.REJECTED, RejectionState.EXPLAINED)
"""A person may still explain, replay or discard these."""


class Rejection(NamedTuple):
    """One rejected message, as the last look at it found; unknown words are the empty text."""

    rejection_id: str
    code: str
    json_path: str
    message: str
    action: str
    source_table: str
    device_id: str
    firmware_version: str
    topic: str
    segment_id: str
    position: int
    received_at: datetime
    drain_id: int
    day: date
    payload_bytes: int
    first_code: str
    state: RejectionState
    note: str | None
    replays: int
    last_outcome: str | None
    last_drain_id: int | None
    changed_at: datetime

    @property
    def place(self) -> RejectionPlace:
        """Where a page that ends with this one ends."""
        return RejectionPlace(self.received_at, UUID(self.rejection_id))


class RejectionFilter(NamedTuple):
    """Which rejections are asked for; what is None does not narrow."""

    code: str | None = None
    source_table: str | None = None
    firmware_version: str | None = None
    state: str | None = None
    device_id: str | None = None
    rejection_id: str | None = None


class RejectionPlace(NamedTuple):
    """Where a page of rejections ended."""

    received_at: datetime
    rejection_id: UUID


class GroupPlace(NamedTuple):
    """What a group has in common, and where a page of groups ended."""

    code: str
    source_table: str
    firmware_version: str


class RejectionGroup(NamedTuple):
    """Rejections with one code, of one table and firmware: usually one mistake."""

    code: str
    source_table: str
    firmware_version: str
    rejections: int
    devices: int
    first_received_at: datetime
    last_received_at: datetime
    states: dict[str, int]
    sample_id: str
    sample_path: str
    sample_message: str

    @property
    def place(self) -> GroupPlace:
        """Where a page that ends with this group ends."""
        return GroupPlace(*self[:3])


FOUND: Final = (
    "rejection_id",
    "code",
    "json_path",
    "message",
    "action",
    "source_table",
    "device_id",
    "firmware_version",
    "topic",
    "segment_id",
    "position",
    "received_at",
    "drain_id",
    "day",
    "payload_bytes",
)
"""The columns that a drain tells of each rejection; the rest is its life."""
_JUDGED = ("code", "json_path", "message", "action", "source_table", "device_id")
_FIELDS = [REJECTION.c[name] for name in Rejection._fields]
_GROUP = [REJECTION.c[name] for name in GroupPlace._fields]


class Rejections:
    """The record of rejections."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, found: pa.Table) -> None:
        """Write down the rejections of a drain; those known already stay as they are."""
        if not found.num_rows:
            return
        incoming = copied_arrow(self._connection, REJECTION, found.select(FOUND))
        on_clock = incoming.c.device_id != ""
        life = {
            "first_code": incoming.c.code,
            "clock_at": case((on_clock, incoming.c.received_at)),
            "clock_bytes": case((on_clock, incoming.c.payload_bytes)),
            "state": literal(RejectionState.REJECTED.value),
            "replays": literal(0),
            "changed_at": literal(datetime.now(UTC)),
        }
        rows = select(*_told(incoming).values(), *life.values())
        statement = insert(REJECTION).from_select([*FOUND, *life], rows)
        self._connection.execute(statement.on_conflict_do_nothing())

    def judge_again(self, found: pa.Table) -> None:
        """Write down what is wrong with replayed messages that were rejected again."""
        if not found.num_rows:
            return
        incoming = copied_arrow(self._connection, REJECTION, found.select(FOUND))
        told = _told(incoming)
        values = {name: told[name] for name in (*_JUDGED, "firmware_version")}
        same = REJECTION.c.rejection_id == incoming.c.rejection_id
        self._connection.execute(update(REJECTION).where(same).values(values))

    def find(self, rejection_id: str, *, locked: bool = False) -> Rejection | None:
        """One rejection by its id; locked, it stays as it is until the transaction ends."""
        query = select(*_FIELDS).where(REJECTION.c.rejection_id == rejection_id)
        row = self._connection.execute(query.with_for_update() if locked else query).first()
        return None if row is None else _rejection(tuple(row))

    def newest(
        self, wanted: RejectionFilter, *, after: RejectionPlace | None = None, limit: int
    ) -> list[Rejection]:
        """The next rejections behind a place, newest first."""
        at, name = REJECTION.c.received_at, REJECTION.c.rejection_id
        query = select(*_FIELDS).where(*narrowed(wanted))
        if after is not None:
            place = (literal(after.received_at, at.type), literal(str(after[1]), name.type))
            query = query.where(tuple_(at, name) < tuple_(*place))
        rows = self._connection.execute(query.order_by(at.desc(), name.desc()).limit(limit))
        return [_rejection(tuple(row)) for row in rows]

    def count(self, wanted: RejectionFilter) -> int:
        """How many there are."""
        query = select(func.count()).select_from(REJECTION).where(*narrowed(wanted))
        return self._connection.scalar(query) or 0

    def first_seen(self, *, until: int) -> dict[int, int]:
        """How many messages each drain up to one rejected for the first time."""
        drain = REJECTION.c.drain_id
        query = select(drain, func.count()).where(drain <= until).group_by(drain)
        return {drain_id: count for drain_id, count in self._connection.execute(query)}

    def count_open(
        self, wanted: RejectionFilter | None = None, *, but_noted: str | None = None
    ) -> int:
        """How many wait for somebody to do something, without those explained by this note."""
        chosen = _open_ones(wanted or RejectionFilter(), but_noted)
        return self._connection.scalar(select(func.count()).where(*chosen)) or 0

    def groups(
        self, wanted: RejectionFilter, *, after: GroupPlace | None = None, limit: int
    ) -> list[RejectionGroup]:
        """The next groups in the order of code, table and firmware, each with its newest."""
        counted = _counted(wanted, after)
        return self._groups(_page(counted, limit=limit), wanted)

    def largest_groups(self, wanted: RejectionFilter, *, limit: int) -> list[RejectionGroup]:
        """The groups with most rejections, the largest first."""
        counted = _counted(wanted)
        return self._groups(_page(counted, counted.c.rejections.desc(), limit=limit), wanted)

    def _groups(self, page: Subquery, wanted: RejectionFilter) -> list[RejectionGroup]:
        """The groups of a page, in its order; only of these the devices are told apart."""
        own = [REJECTION.c[name] == page.c[name] for name in GroupPlace._fields]
        within = (*narrowed(wanted), *own)
        devices, newest = _devices(within), _newest(within, at=page.c.last_received_at)
        told = {**page.c, "devices": devices.c.devices, **newest.c}
        query = select(*(told[name] for name in RejectionGroup._fields))
        joined = page.join(devices, true()).join(newest, true())
        rows = self._connection.execute(query.select_from(joined).order_by(page.c.place))
        groups = (RejectionGroup._make(row) for row in rows)
        return [group._replace(states=_state_counts(group.states)) for group in groups]

    def move(self, rejection_id: str, state: RejectionState, *, note: str | None) -> None:
        """Set the state and the note of a rejection."""
        statement = update(REJECTION).where(REJECTION.c.rejection_id == rejection_id)
        moment = datetime.now(UTC)
        kept = None if note is None else shown(note)
        self._connection.execute(statement.values(state=state, note=kept, changed_at=moment))

    def explain_open(self, wanted: RejectionFilter, *, note: str) -> int:
        """Note why the open ones were rejected, the oldest first; tell how many have it anew."""
        state = RejectionState.EXPLAINED
        return self._move_open(_open_ones(wanted, note), state, note=note)

    def discard_open(self, wanted: RejectionFilter, *, note: str | None) -> int:
        """Set the open ones aside, the oldest first; tell how many."""
        return self._move_open(_open_ones(wanted, None), RejectionState.DISCARDED, note=note)

    def _move_open(
        self, chosen: Sequence[ColumnElement[bool]], state: RejectionState, *, note: str | None
    ) -> int:
        c = REJECTION.c
        oldest = select(c.rejection_id).where(*chosen).order_by(c.received_at, c.rejection_id)
        some = oldest.limit(MOST_AT_ONCE).with_for_update().cte("some")
        values = {
            "state": state,
            "note": func.coalesce(None if note is None else shown(note), c.note),
            "changed_at": datetime.now(UTC),
        }
        statement = update(REJECTION).where(c.rejection_id.in_(select(some.c.rejection_id)))
        return self._connection.execute(statement.values(values)).rowcount

    def are_known(self) -> bool:
        """Whether what the tables held before there was this record is in it, too."""
        return bool(self._connection.scalar(select(WAREHOUSE.c.rejections_known)))

    def all_are_known(self) -> None:
        """Note that it is."""
        self._connection.execute(update(WAREHOUSE).values(rejections_known=True))


def _told(incoming: Table) -> dict[str, ColumnElement[Any]]:
    """What is told of rejections; firmware that no index has room for is unknown.

    A drain that an older build sealed may tell any.
    """
    firmware = incoming.c.firmware_version
    fits = func.length(firmware).between(1, MAX_NAME)
    known = case((fits, firmware), else_=UNKNOWN_FIRMWARE)
    return {name: incoming.c[name] for name in FOUND} | {"firmware_version": known}


def narrowed(wanted: RejectionFilter) -> list[ColumnElement[bool]]:
    """The conditions that a filter stands for."""
    return [
        REJECTION.c[name] == shown(value)
        for name, value in wanted._asdict().items()
        if value is not None
    ]


def _open_ones(wanted: RejectionFilter, but_noted: str | None) -> list[ColumnElement[bool]]:
    conditions = [REJECTION.c.state.in_(OPEN_STATES), *narrowed(wanted)]
    if but_noted is not None:
        # One that was replayed in vain keeps its note, and is not explained any more.
        unexplained = REJECTION.c.state != RejectionState.EXPLAINED.value
        conditions.append(or_(unexplained, REJECTION.c.note.is_distinct_from(shown(but_noted))))
    return conditions


def _rejection(row: tuple[Any, ...]) -> Rejection:
    rejection = Rejection(*row)
    return rejection._replace(state=RejectionState(rejection.state))


def _counted(wanted: RejectionFilter, after: GroupPlace | None = None) -> Subquery:
    """The groups of what is wanted behind a place, without what costs a look at every sender."""
    received = REJECTION.c.received_at
    states = [func.count().filter(REJECTION.c.state == state.value) for state in RejectionState]
    query = select(
        *_GROUP,
        func.count().label("rejections"),
        func.min(received).label("first_received_at"),
        func.max(received).label("last_received_at"),
        func.json_build_array(*states).label("states"),
    ).where(*narrowed(wanted))
    if after is not None:
        query = query.where(tuple_(*_GROUP) > tuple_(*map(literal, after)))
    return query.group_by(*_GROUP).subquery()


def _page(counted: Subquery, *first: ColumnElement[Any], limit: int) -> Subquery:
    """So many groups, by what comes first and by their place, which is numbered."""
    order = (*first, *(counted.c[name] for name in GroupPlace._fields))
    place = func.row_number().over(order_by=order).label("place")
    return select(counted, place).order_by(*order).limit(limit).subquery()


def _devices(within: Sequence[ColumnElement[bool]]) -> LateralFromClause:
    """How many have sent rejections; those of unknown ones are told apart by their topics."""
    sender = case((REJECTION.c.device_id != "", REJECTION.c.device_id), else_=REJECTION.c.topic)
    return select(func.count(sender.distinct()).label("devices")).where(*within).lateral()


def _newest(within: Sequence[ColumnElement[bool]], *, at: ColumnElement[Any]) -> LateralFromClause:
    """One of the rejections that came last."""
    told = {"sample_id": "rejection_id", "sample_path": "json_path", "sample_message": "message"}
    query = select(*(REJECTION.c[name].label(label) for label, name in told.items()))
    last = query.where(*within, REJECTION.c.received_at == at)
    return last.order_by(REJECTION.c.rejection_id.desc()).limit(1).lateral()


def _state_counts(counts: Any) -> dict[str, int]:
    pairs = zip(RejectionState, counts, strict=True)
    return {state.value: count for state, count in pairs if count}
