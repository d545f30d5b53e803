"""Replays of rejections: asked for, landed as a segment, settled by the drain that took it.

Each step is one transaction, and the next finds out from the records what is left to do: a replay
is named before its segment lands, and registered together with the note that it has landed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from typing import Any, Final, NamedTuple

import pyarrow as pa
from sqlalchemy import (
    Connection,
    Row,
    and_,
    case,
    exists,
    func,
    insert,
    or_,
    select,
    text,
    update,
)

from ilyama_protocol.intake.clock_places import ClockPlace, ClockPlaces, moments_of
from ilyama_protocol.intake.lineage_rulings import DECIDED
from ilyama_protocol.intake.outcomes import Outcome
from ilyama_protocol.moments import micros, utc
from ilyama_resources.postgres.copying import copied, copied_arrow
from ilyama_resources.postgres.rejections import (
    MOST_AT_ONCE,
    OPEN_STATES,
    RejectionFilter,
    RejectionState,
    narrowed,
)
from ilyama_resources.postgres.schema import REJECTION, REJECTION_REPLAY

MOST_IN_A_SEGMENT: Final = 5_000
BYTES_MISSING: Final = "bytes_missing"
"""The outcome of a replay whose bytes the tables no longer hold."""


class ReplayRequest(NamedTuple):
    """Who asks for a replay, and with which bytes when not with those that are stored."""

    by: str
    corrected: bytes | None = None


class Replay(NamedTuple):
    """One replay of a rejection, with the place where its bytes are stored.

    `clock_at` is the place on the clock that the rejection has, also where the replay gets another.
    """

    rejection_id: str
    attempt: int
    received_at: datetime
    timed_anew: bool
    payload_bytes: int
    corrected: bytes | None
    stored_segment_id: str
    stored_position: int
    stored_day: date
    stored_drain_id: int
    topic: str
    clock_at: datetime


class PastReplay(NamedTuple):
    """What became of one replay."""

    attempt: int
    requested_at: datetime
    requested_by: str
    corrected: bool
    segment_id: str | None
    position: int | None
    drain_id: int | None
    outcome: str | None
    code: str | None


_REPLAY = (
    *(REJECTION_REPLAY.c[name] for name in Replay._fields[:6]),
    *(
        REJECTION.c[name]
        for name in ("segment_id", "position", "day", "drain_id", "topic", "clock_at")
    ),
)
_WAITS = (~REJECTION_REPLAY.c.landed, REJECTION_REPLAY.c.outcome.is_(None))
_UNDECIDED = and_(
    REJECTION_REPLAY.c.outcome == Outcome.STAGED.value,
    func.coalesce(REJECTION_REPLAY.c.code, "").not_in(DECIDED),
)
"""Whether the message broke the engine; rows that are staged otherwise were decided."""
_ORDER = (REJECTION_REPLAY.c.received_at, REJECTION_REPLAY.c.rejection_id)
_SIZED = (*_ORDER, REJECTION_REPLAY.c.payload_bytes)
"""All that a segment is chosen by: the bytes of everything that waits may not fit in memory."""
_SAME = REJECTION.c.rejection_id == REJECTION_REPLAY.c.rejection_id


class RejectionReplays:
    """The record of replays."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def alone(self) -> None:
        """Let nobody else ask for replays until the transaction ends.

        Two requests at once could give one place on a clock away twice. Whoever locks rejections
        for a replay takes this lock first: in another order two could wait for each other.
        """
        self._connection.execute(
            text("SELECT pg_advisory_xact_lock(hashtext('ilyama rejection replays'))")
        )

    def request(self, wanted: RejectionFilter, request: ReplayRequest) -> int:
        """Ask for a replay of every open rejection that is wanted; returns how many those are."""
        self.alone()
        chosen = self._open_ones(wanted)
        if chosen:
            places = self._places(chosen)
            self._set_off(chosen, places)
            self._write_down(chosen, places, request)
        return len(chosen)

    def _open_ones(self, wanted: RejectionFilter) -> Sequence[Row[Any]]:
        query = (
            select(REJECTION)
            .where(REJECTION.c.state.in_(OPEN_STATES), *narrowed(wanted))
            .order_by(REJECTION.c.received_at, REJECTION.c.segment_id, REJECTION.c.position)
            .limit(MOST_AT_ONCE)
            .with_for_update()
        )
        return self._connection.execute(query).all()

    def _places(self, chosen: Sequence[Row[Any]]) -> list[ClockPlace]:
        """Each message's place on its clock; one whose sender was unknown is given one."""
        clocks = self._clocks({row.topic for row in chosen if row.clock_at is None})
        return [
            clocks[row.topic].take(micros(row.received_at), row.payload_bytes)
            if row.clock_at is None
            else ClockPlace(micros(row.clock_at), row.clock_bytes)
            for row in chosen
        ]

    def _clocks(self, topics: set[str]) -> dict[str, ClockPlaces]:
        query = select(REJECTION.c.topic, REJECTION.c.clock_at, REJECTION.c.clock_bytes).where(
            REJECTION.c.topic.in_(topics), REJECTION.c.clock_at.is_not(None)
        )
        taken: dict[str, list[ClockPlace]] = {topic: [] for topic in topics}
        for topic, at, size in self._connection.execute(query) if topics else ():
            taken[topic].append(ClockPlace(micros(at), size))
        return {topic: ClockPlaces(places) for topic, places in taken.items()}

    def _set_off(self, chosen: Sequence[Row[Any]], places: Sequence[ClockPlace]) -> None:
        incoming = copied_arrow(
            self._connection,
            REJECTION,
            pa.table(
                {
                    "rejection_id": [row.rejection_id for row in chosen],
                    "clock_at": pa.array([utc(place.at) for place in places], _MOMENT),
                    "clock_bytes": [place.payload_bytes for place in places],
                }
            ),
        )
        statement = update(REJECTION).where(REJECTION.c.rejection_id == incoming.c.rejection_id)
        values = {
            "state": RejectionState.REPLAYED.value,
            "replays": REJECTION.c.replays + 1,
            "changed_at": datetime.now(UTC),
            "clock_at": incoming.c.clock_at,
            "clock_bytes": incoming.c.clock_bytes,
        }
        self._connection.execute(statement.values(values))

    def _write_down(
        self, chosen: Sequence[Row[Any]], places: Sequence[ClockPlace], request: ReplayRequest
    ) -> None:
        now = datetime.now(UTC)
        corrected = request.corrected
        rows = []
        for row, place in zip(chosen, places, strict=True):
            size = row.payload_bytes if corrected is None else len(corrected)
            anew = corrected is not None and not place.fits(moments_of(row.topic, corrected))
            rows.append(
                {
                    "rejection_id": row.rejection_id,
                    "attempt": row.replays + 1,
                    "requested_at": now,
                    "requested_by": request.by,
                    "received_at": now if anew else utc(place.at),
                    "timed_anew": anew,
                    "payload_bytes": size,
                    "corrected": None if corrected is None else f"\\x{corrected.hex()}",
                    "landed": False,
                }
            )
        names = REJECTION_REPLAY.columns.keys()
        incoming = copied(
            self._connection, REJECTION_REPLAY, ([row.get(name) for name in names] for row in rows)
        )
        self._connection.execute(insert(REJECTION_REPLAY).from_select(names, select(incoming)))

    def waits(self) -> bool:
        """Whether a replay waits to be landed."""
        return bool(self._connection.scalar(select(exists().where(*_WAITS))))

    def place(self, segment_id: str, *, at_most_bytes: int) -> bool:
        """Give waiting replays of one day to a segment that will land; False when none waits."""
        query = (
            select(*_SIZED)
            .where(REJECTION_REPLAY.c.segment_id.is_(None), *_WAITS)
            .order_by(*_ORDER)
            .limit(MOST_IN_A_SEGMENT)
            .with_for_update()
        )
        chosen = _that_fit(self._connection.execute(query).all(), at_most_bytes)
        statement = update(REJECTION_REPLAY).where(
            REJECTION_REPLAY.c.rejection_id.in_([row.rejection_id for row in chosen]),
            REJECTION_REPLAY.c.segment_id.is_(None),
            *_WAITS,
        )
        self._connection.execute(statement.values(segment_id=segment_id))
        return bool(chosen)

    def placed(self) -> str | None:
        """A segment that has replays and has not landed."""
        query = select(REJECTION_REPLAY.c.segment_id).where(
            REJECTION_REPLAY.c.segment_id.is_not(None), *_WAITS
        )
        return self._connection.scalar(query.order_by(*_ORDER).limit(1))

    def of_segment(self, segment_id: str) -> list[Replay]:
        """The replays that a segment will hold, in order."""
        query = select(*_REPLAY).join(REJECTION, _SAME).order_by(*_ORDER)
        rows = self._connection.execute(
            query.where(REJECTION_REPLAY.c.segment_id == segment_id, *_WAITS)
        )
        return [Replay(*row) for row in rows]

    def number(self, replays: Iterable[Replay]) -> None:
        """Fix the positions of replays in their segment."""
        numbered = [(r.rejection_id, r.attempt, place) for place, r in enumerate(replays)]
        columns = [*zip(*numbered, strict=True)] or [(), (), ()]
        rows = pa.table(dict(zip(("rejection_id", "attempt", "position"), columns, strict=True)))
        incoming = copied_arrow(self._connection, REJECTION_REPLAY, rows)
        statement = update(REJECTION_REPLAY).where(
            REJECTION_REPLAY.c.rejection_id == incoming.c.rejection_id,
            REJECTION_REPLAY.c.attempt == incoming.c.attempt,
        )
        self._connection.execute(statement.values(position=incoming.c.position))

    def give_up(self, replays: Iterable[Replay]) -> None:
        """End replays whose bytes are gone; their rejections are what they were before."""
        ids = [replay.rejection_id for replay in replays]
        of_ids = REJECTION_REPLAY.c.rejection_id.in_(ids)
        self._connection.execute(
            update(REJECTION_REPLAY).where(of_ids, *_WAITS).values(outcome=BYTES_MISSING)
        )
        was = case((REJECTION.c.note.is_not(None), RejectionState.EXPLAINED.value))
        values = {
            "state": func.coalesce(was, RejectionState.REJECTED.value),
            "last_outcome": BYTES_MISSING,
            "changed_at": datetime.now(UTC),
        }
        self._connection.execute(
            update(REJECTION).where(REJECTION.c.rejection_id.in_(ids)).values(values)
        )

    def landed(self, segment_id: str) -> None:
        """Note that a segment has landed."""
        statement = update(REJECTION_REPLAY).where(REJECTION_REPLAY.c.segment_id == segment_id)
        self._connection.execute(statement.values(landed=True))

    def settle(self, outcomes: pa.Table, *, drain_id: int) -> None:
        """Write down what became of the messages of a drain that replayed rejections.

        One that broke the engine is not decided: its rejection stays `replayed` until it is.
        """
        if not outcomes.num_rows:
            return
        incoming = copied_arrow(self._connection, REJECTION_REPLAY, outcomes)
        values = {"outcome": incoming.c.outcome, "code": incoming.c.code, "drain_id": drain_id}
        self._connection.execute(
            update(REJECTION_REPLAY)
            .where(
                REJECTION_REPLAY.c.segment_id == incoming.c.segment_id,
                REJECTION_REPLAY.c.position == incoming.c.position,
                or_(REJECTION_REPLAY.c.outcome.is_(None), _UNDECIDED),
            )
            .values(values)
        )
        self._move_on(drain_id)
        self._let_go_of_bytes()

    def _let_go_of_bytes(self) -> None:
        """The bytes of replays that were drained are in the tables; that there were any is kept."""
        held = and_(REJECTION_REPLAY.c.outcome.is_not(None), REJECTION_REPLAY.c.corrected != b"")
        self._connection.execute(update(REJECTION_REPLAY).where(held).values(corrected=b""))

    def _move_on(self, drain_id: int) -> None:
        again = REJECTION_REPLAY.c.outcome == Outcome.REJECTED.value
        state = case(
            (again, RejectionState.REJECTED.value),
            (_UNDECIDED, RejectionState.REPLAYED.value),
            else_=RejectionState.ACCEPTED.value,
        )
        values = {
            "state": state,
            "last_outcome": REJECTION_REPLAY.c.outcome,
            "last_drain_id": drain_id,
            "changed_at": datetime.now(UTC),
        }
        self._connection.execute(
            update(REJECTION)
            .where(
                _SAME,
                REJECTION_REPLAY.c.attempt == REJECTION.c.replays,
                REJECTION_REPLAY.c.drain_id == drain_id,
                REJECTION.c.state == RejectionState.REPLAYED.value,
            )
            .values(values)
        )

    def of(self, rejection_id: str) -> list[PastReplay]:
        """The replays of a rejection, in order."""
        told = [
            REJECTION_REPLAY.c[name]
            if name != "corrected"
            else REJECTION_REPLAY.c.corrected.is_not(None)
            for name in PastReplay._fields
        ]
        query = select(*told).where(REJECTION_REPLAY.c.rejection_id == rejection_id)
        rows = self._connection.execute(query.order_by(REJECTION_REPLAY.c.attempt))
        return [PastReplay(*row) for row in rows]


_MOMENT = pa.timestamp("us", tz="UTC")


def _that_fit(waiting: Sequence[Row[Any]], at_most_bytes: int) -> list[Row[Any]]:
    """The first of them that make one segment: of one day, and of a bounded size."""
    fitting: list[Row[Any]] = []
    size = 0
    for row in waiting:
        size += row.payload_bytes
        other_day = fitting and _day(row) != _day(fitting[0])
        if fitting and (other_day or size > at_most_bytes):
            break
        fitting.append(row)
    return fitting


def _day(row: Row[Any]) -> date:
    moment: datetime = row.received_at
    return moment.astimezone(UTC).date()
