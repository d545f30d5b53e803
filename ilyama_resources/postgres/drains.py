"""Drains: opened, sealed, closed; at most one unfinished at a time."""

from __future__ import annotations

from datetime import UTC, date, datetime
from enum import StrEnum
from typing import NamedTuple

from sqlalchemy import Connection, Update, delete, exists, func, insert, select, text, update
from sqlalchemy.dialects.postgresql import insert as insert_or_update
from sqlalchemy.exc import IntegrityError

from ilyama_resources.errors import PlatformError
from ilyama_resources.postgres.paging import newest_first
from ilyama_resources.postgres.schema import (
    DRAIN,
    DRAIN_SEAL,
    INTERNAL_LOG,
    LEDGER_TOTAL,
    PAST_DRAINS,
    SEGMENT,
)


class DrainState(StrEnum):
    """How far a drain has come; a held one waits for an operator."""

    OPEN = "open"
    SEALED = "sealed"
    DONE = "done"
    HELD = "held"


class DrainMoved(PlatformError):
    """Another process has taken a drain further meanwhile."""


class Drain(NamedTuple):
    """One intake of a day's segments."""

    drain_id: int
    day: date
    origin: str
    state: DrainState
    attempts: int
    segments: int
    messages: int
    bytes: int
    note: str | None
    opened_at: datetime
    sealed_at: datetime | None
    closed_at: datetime | None


_FIELDS = [DRAIN.c[name] for name in Drain._fields]
_REFERRING = (DRAIN_SEAL, SEGMENT, LEDGER_TOTAL)
_DECIDED_THEN_WRITTEN = ("live", "day", "rejection")
"""Origins of drains that write what they decide; a release writes what was decided before."""


def _drain(row: tuple[object, ...]) -> Drain:
    drain = Drain(*row)  # type: ignore[arg-type]
    return drain._replace(state=DrainState(drain.state))


class Drains:
    """The record of every drain."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def unfinished(self) -> Drain | None:
        """The drain that was opened and not closed, if there is one."""
        query = select(*_FIELDS).where(DRAIN.c.state != DrainState.DONE)
        row = self._connection.execute(query.order_by(DRAIN.c.drain_id)).first()
        return None if row is None else _drain(tuple(row))

    def stand_still(self) -> None:
        """Let no drain begin, go on or end until the transaction ends."""
        self._connection.execute(text("LOCK TABLE drain IN SHARE ROW EXCLUSIVE MODE"))

    def last_id(self) -> int:
        """The highest id that was ever given."""
        return self._connection.scalar(select(func.coalesce(func.max(DRAIN.c.drain_id), 0))) or 0

    def last_done_id(self) -> int:
        """The highest drain that is closed."""
        query = select(func.coalesce(func.max(DRAIN.c.drain_id), 0))
        return self._connection.scalar(query.where(DRAIN.c.state == DrainState.DONE)) or 0

    def open(self, drain_id: int, day: date, *, origin: str) -> None:
        """Begin a drain.

        Raises:
            DrainMoved: another process has begun one.
        """
        nothing_yet = dict.fromkeys(("attempts", "segments", "messages", "bytes"), 0)
        values = {"drain_id": drain_id, "day": day, "origin": origin, **nothing_yet}
        statement = insert(DRAIN).values(
            **values, state=DrainState.OPEN, opened_at=datetime.now(UTC)
        )
        try:
            self._connection.execute(statement)
        except IntegrityError as error:
            raise DrainMoved(
                f"drain {drain_id} cannot be opened: another process opened one meanwhile"
            ) from error

    def measure(self, drain_id: int, *, segments: int, messages: int, size: int) -> None:
        """Note what a drain took."""
        self._update(drain_id, segments=segments, messages=messages, bytes=size)

    def attempt(self, drain_id: int) -> int:
        """Count an attempt to decide, and return its number."""
        statement = _open_one(drain_id).values(attempts=DRAIN.c.attempts + 1)
        attempts = self._connection.scalar(statement.returning(DRAIN.c.attempts))
        if attempts is None:
            raise _moved(drain_id, DrainState.OPEN)
        return int(attempts)

    def forgive_attempt(self, drain_id: int, *, note: str) -> None:
        """Take an attempt back that failed for no fault of its messages."""
        self._update(drain_id, attempts=DRAIN.c.attempts - 1, note=note)

    def note(self, drain_id: int, note: str) -> None:
        """Say why a drain is not further."""
        self._update(drain_id, note=note)

    def seal(self, drain_id: int, body: bytes) -> None:
        """Fix what the drain will commit and close with."""
        self._move(drain_id, DrainState.OPEN, DrainState.SEALED, sealed_at=datetime.now(UTC))
        self._connection.execute(insert(DRAIN_SEAL).values(drain_id=drain_id, body=body))

    def sealed_body(self, drain_id: int) -> bytes:
        """What a sealed drain was sealed with."""
        query = select(DRAIN_SEAL.c.body).where(DRAIN_SEAL.c.drain_id == drain_id)
        body = self._connection.scalar(query)
        if body is None:
            raise _moved(drain_id, DrainState.SEALED)
        return bytes(body)

    def close(self, drain_id: int) -> None:
        """Mark a sealed drain done; the seal has served its purpose."""
        self._connection.execute(delete(DRAIN_SEAL).where(DRAIN_SEAL.c.drain_id == drain_id))
        self._move(drain_id, DrainState.SEALED, DrainState.DONE, closed_at=datetime.now(UTC))

    def abandon(self, drain_id: int, note: str) -> None:
        """End a drain that has nothing to lose: a replay that failed."""
        moment = datetime.now(UTC)
        self._move(drain_id, DrainState.OPEN, DrainState.DONE, closed_at=moment, note=note)
        self.log(drain_id, level="ERROR", message=note)

    def hold(self, drain_id: int, note: str) -> None:
        """Stop intake at this drain until an operator releases it."""
        self._move(drain_id, DrainState.OPEN, DrainState.HELD, note=note)
        self.log(drain_id, level="ERROR", message=note)

    def release(self, drain_id: int) -> bool:
        """Let a held drain be decided again."""
        statement = (
            update(DRAIN)
            .where(DRAIN.c.drain_id == drain_id, DRAIN.c.state == DrainState.HELD)
            .values(state=DrainState.OPEN, attempts=0, note="released by an operator")
        )
        return self._connection.execute(statement).rowcount == 1

    def page(
        self,
        *,
        state: DrainState | None = None,
        day: date | None = None,
        before: int | None = None,
        limit: int,
    ) -> list[Drain]:
        """The next drains below an id, newest first."""
        query = newest_first(select(*_FIELDS), DRAIN.c.drain_id, before=before, limit=limit)
        for column, value in ((DRAIN.c.state, state), (DRAIN.c.day, day)):
            query = query if value is None else query.where(column == value)
        return [_drain(tuple(row)) for row in self._connection.execute(query)]

    def last_done(self) -> Drain | None:
        """The newest drain that is closed."""
        newest = self.page(state=DrainState.DONE, limit=1)
        return newest[0] if newest else None

    def out_of_order(self, first: int, last: int) -> list[int]:
        """Drains that may have written rows which were decided before those of other drains.

        They are releases, and drains that nobody remembers: these may have been releases.
        """
        within = DRAIN.c.drain_id.between(first, last)
        query = select(DRAIN.c.drain_id).where(within, DRAIN.c.origin.in_(_DECIDED_THEN_WRITTEN))
        in_order = {*self._connection.scalars(query)}
        return [drain_id for drain_id in range(first, last + 1) if drain_id not in in_order]

    def find(self, drain_id: int) -> Drain | None:
        """One drain by its id."""
        row = self._connection.execute(select(*_FIELDS).where(DRAIN.c.drain_id == drain_id)).first()
        return None if row is None else _drain(tuple(row))

    def forget(self, *, closed_before: datetime) -> None:
        """Remove drains of long ago that no segment and no sum belongs to; what they took is kept.

        The last of each day and origin stays: the sums of its day belong to it, or will.
        """
        done = DRAIN.c.state == DrainState.DONE
        last = select(func.max(DRAIN.c.drain_id)).where(done).group_by(DRAIN.c.day, DRAIN.c.origin)
        gone = (
            delete(DRAIN)
            .where(
                done,
                DRAIN.c.closed_at < closed_before,
                DRAIN.c.drain_id.not_in(last),
                *(~exists().where(of.c.drain_id == DRAIN.c.drain_id) for of in _REFERRING),
            )
            .returning(DRAIN.c.day, DRAIN.c.origin, DRAIN.c.messages)
            .cte("gone")
        )
        taken = select(gone.c.day, gone.c.origin, func.sum(gone.c.messages))
        statement = insert_or_update(PAST_DRAINS).from_select(
            list(PAST_DRAINS.columns.keys()), taken.group_by(gone.c.day, gone.c.origin)
        )
        both = PAST_DRAINS.c.messages + statement.excluded.messages
        self._connection.execute(
            statement.on_conflict_do_update(
                index_elements=list(PAST_DRAINS.primary_key), set_={"messages": both}
            )
        )

    def log(self, drain_id: int, *, level: str, message: str) -> None:
        """Write a line for the operators."""
        values = {"drain_id": drain_id, "level": level, "message": message}
        self._connection.execute(
            insert(INTERNAL_LOG).values(at=datetime.now(UTC), subject="drain", **values)
        )

    def forget_log(self, *, before: datetime) -> None:
        """Remove what was written for the operators long ago."""
        self._connection.execute(delete(INTERNAL_LOG).where(INTERNAL_LOG.c.at < before))

    def _move(
        self,
        drain_id: int,
        before: DrainState,
        after: DrainState,
        *,
        note: str | None = None,
        **moments: datetime,
    ) -> None:
        """Take a drain one step further, if no other process has done so meanwhile."""
        statement = update(DRAIN).where(DRAIN.c.drain_id == drain_id, DRAIN.c.state == before)
        if (
            self._connection.execute(statement.values(state=after, note=note, **moments)).rowcount
            != 1
        ):
            raise _moved(drain_id, before)

    def _update(self, drain_id: int, **values: object) -> None:
        if self._connection.execute(_open_one(drain_id).values(**values)).rowcount != 1:
            raise _moved(drain_id, DrainState.OPEN)


def _open_one(drain_id: int) -> Update:
    return update(DRAIN).where(DRAIN.c.drain_id == drain_id, DRAIN.c.state == DrainState.OPEN)


def _moved(drain_id: int, before: DrainState) -> DrainMoved:
    return DrainMoved(f"drain {drain_id} is no longer {before}: another process took it up")
