"""Rejections and their life: rejected, explained, replayed, accepted or discarded."""

from __future__ import annotations

from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple

import pyarrow as pa
from sqlalchemy import (
    ColumnElement,
    Connection,
    case,
    func,
    literal,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from ilyama_resources.postgres.copying import copied_arrow, shown
from ilyama_resources.postgres.schema import REJECTION, WAREHOUSE


class RejectionState(StrEnum):
    """Where a rejection is in its life; `replayed` means that a replay is under way."""

    REJECTED = "rejected"
    EXPLAINED = "explained"
    REPLAYED = "replayed"
    ACCEPTED = "accepted"
    DISCARDED = "discarded"


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


class RejectionFilter(NamedTuple):
    """Which rejections are asked for; what is None does not narrow."""

    code: str | None = None
    source_table: str | None = None
    firmware_version: str | None = None
    state: str | None = None
    device_id: str | None = None
    rejection_id: str | None = None


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
        rows = select(*(incoming.c[name] for name in FOUND), *life.values())
        statement = insert(REJECTION).from_select([*FOUND, *life], rows)
        self._connection.execute(statement.on_conflict_do_nothing())

    def judge_again(self, found: pa.Table) -> None:
        """Write down what is wrong with replayed messages that were rejected again."""
        if not found.num_rows:
            return
        incoming = copied_arrow(self._connection, REJECTION, found.select(FOUND))
        values = {name: incoming.c[name] for name in (*_JUDGED, "firmware_version")}
        same = REJECTION.c.rejection_id == incoming.c.rejection_id
        self._connection.execute(update(REJECTION).where(same).values(values))

    def find(self, rejection_id: str, *, locked: bool = False) -> Rejection | None:
        """One rejection by its id; locked, it stays as it is until the transaction ends."""
        query = select(*_FIELDS).where(REJECTION.c.rejection_id == rejection_id)
        row = self._connection.execute(query.with_for_update() if locked else query).first()
        return None if row is None else _rejection(tuple(row))

    def newest(self, wanted: RejectionFilter, *, limit: int) -> list[Rejection]:
        """The newest rejections, newest first."""
        query = select(*_FIELDS).where(*narrowed(wanted))
        order = (REJECTION.c.received_at.desc(), REJECTION.c.rejection_id)
        rows = self._connection.execute(query.order_by(*order).limit(limit))
        return [_rejection(tuple(row)) for row in rows]

    def count(self, wanted: RejectionFilter) -> int:
        """How many there are."""
        query = select(func.count()).select_from(REJECTION).where(*narrowed(wanted))
        return self._connection.scalar(query) or 0

    def count_open(self) -> int:
        """How many wait for somebody to do something."""
        query = select(func.count()).where(REJECTION.c.state.in_(OPEN_STATES))
        return self._connection.scalar(query) or 0

    def groups(
        self, wanted: RejectionFilter, *, after: GroupPlace | None = None, limit: int
    ) -> list[RejectionGroup]:
        """The next groups in the order of code, table and firmware, each with its newest."""
        query = _counted(wanted).group_by(*_GROUP).order_by(*_GROUP).limit(limit)
        if after is not None:
            query = query.where(tuple_(*_GROUP) > tuple_(*map(literal, after)))
        return self._sampled(query, wanted)

    def largest_groups(self, wanted: RejectionFilter, *, limit: int) -> list[RejectionGroup]:
        """The groups with most rejections, the largest first."""
        query = _counted(wanted).group_by(*_GROUP)
        return self._sampled(query.order_by(func.count().desc(), *_GROUP).limit(limit), wanted)

    def _sampled(self, query: Any, wanted: RejectionFilter) -> list[RejectionGroup]:
        found = []
        for row in self._connection.execute(query).all():
            *counted, states = row
            within = wanted._replace(**GroupPlace(*counted[:3])._asdict())
            # None is left when its state has changed since the groups were counted.
            for sample in self.newest(within, limit=1):
                told = (sample.rejection_id, sample.json_path, sample.message)
                found.append(RejectionGroup._make((*counted, _state_counts(states), *told)))
        return found

    def move(self, rejection_id: str, state: RejectionState, *, note: str | None) -> None:
        """Set the state and the note of a rejection."""
        statement = update(REJECTION).where(REJECTION.c.rejection_id == rejection_id)
        moment = datetime.now(UTC)
        kept = None if note is None else shown(note)
        self._connection.execute(statement.values(state=state, note=kept, changed_at=moment))

    def are_known(self) -> bool:
        """Whether what the tables held before there was this record is in it, too."""
        return bool(self._connection.scalar(select(WAREHOUSE.c.rejections_known)))

    def all_are_known(self) -> None:
        """Note that it is."""
        self._connection.execute(update(WAREHOUSE).values(rejections_known=True))


def narrowed(wanted: RejectionFilter) -> list[ColumnElement[bool]]:
    """The conditions that a filter stands for."""
    return [
        REJECTION.c[name] == shown(value)
        for name, value in wanted._asdict().items()
        if value is not None
    ]


def _rejection(row: tuple[Any, ...]) -> Rejection:
    rejection = Rejection(*row)
    return rejection._replace(state=RejectionState(rejection.state))


def _counted(wanted: RejectionFilter) -> Any:
    received = REJECTION.c.received_at
    sender = case((REJECTION.c.device_id != "", REJECTION.c.device_id), else_=REJECTION.c.topic)
    states = [func.count().filter(REJECTION.c.state == state.value) for state in RejectionState]
    return select(
        *_GROUP,
        func.count(),
        func.count(func.distinct(sender)),
        func.min(received),
        func.max(received),
        func.json_build_array(*states),
    ).where(*narrowed(wanted))


def _state_counts(counts: list[int]) -> dict[str, int]:
    pairs = zip(RejectionState, counts, strict=True)
    return {state.value: count for state, count in pairs if count}
