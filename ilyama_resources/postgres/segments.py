"""Landed segments: registered once, given to one drain."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import NamedTuple

from sqlalchemy import Connection, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert

from ilyama_protocol.intake.outcomes import Origin
from ilyama_resources.landing.segment_files import Segment
from ilyama_resources.postgres.schema import DRAIN, SEGMENT


class PendingDay(NamedTuple):
    """What waits to be drained of one arrival day and origin."""

    day: date
    segments: int
    messages: int
    bytes: int
    origin: str = Origin.LIVE.value


class LandedSegment(NamedTuple):
    """How many messages a segment held, and whether its drain is done."""

    messages: int
    is_drained: bool


_FIELDS = [SEGMENT.c[name] for name in Segment._fields]


class Segments:
    """The registry of landed segments."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def register(self, segments: Iterable[Segment]) -> int:
        """Make segments known; those known already stay as they are."""
        now = datetime.now(UTC)
        rows = [segment._asdict() | {"registered_at": now} for segment in segments]
        if not rows:
            return 0
        statement = insert(SEGMENT).on_conflict_do_nothing().returning(SEGMENT.c.segment_id)
        return len(self._connection.execute(statement, rows).fetchall())

    def known(self, segment_ids: Iterable[str]) -> set[str]:
        """Those of the given ids that are registered."""
        query = select(SEGMENT.c.segment_id).where(SEGMENT.c.segment_id.in_(list(segment_ids)))
        return set(self._connection.scalars(query))

    def pending(self, day: date | None = None) -> list[PendingDay]:
        """What waits, by arrival day and origin: the oldest day first, then who waits longest."""
        query = (
            select(
                SEGMENT.c.day,
                func.count(),
                func.sum(SEGMENT.c.messages),
                func.sum(SEGMENT.c.bytes),
                SEGMENT.c.origin,
            )
            .where(SEGMENT.c.drain_id.is_(None))
            .group_by(SEGMENT.c.day, SEGMENT.c.origin)
            .order_by(SEGMENT.c.day, func.min(SEGMENT.c.registered_at))
        )
        if day is not None:
            query = query.where(SEGMENT.c.day == day)
        return [PendingDay(*row) for row in self._connection.execute(query)]

    def waiting_since(self, moment: datetime) -> int:
        """How many segments were registered before a moment and still wait."""
        query = select(func.count()).where(
            SEGMENT.c.drain_id.is_(None), SEGMENT.c.registered_at < moment
        )
        return self._connection.scalar(query) or 0

    def take(
        self, day: date, drain_id: int, *, at_most_bytes: int, origin: str = Origin.LIVE.value
    ) -> list[Segment]:
        """Give the day's oldest waiting segments to a drain: one at least, then up to a size."""
        query = (
            select(*_FIELDS)
            .where(SEGMENT.c.drain_id.is_(None), SEGMENT.c.day == day, SEGMENT.c.origin == origin)
            .order_by(SEGMENT.c.segment_id)
            .with_for_update()
        )
        taken: list[Segment] = []
        size = 0
        for row in self._connection.execute(query):
            segment = Segment(*row)
            size += segment.bytes
            if taken and size > at_most_bytes:
                break
            taken.append(segment)
        ids = [segment.segment_id for segment in taken]
        self._connection.execute(
            update(SEGMENT).where(SEGMENT.c.segment_id.in_(ids)).values(drain_id=drain_id)
        )
        return taken

    def of_drain(self, drain_id: int) -> list[Segment]:
        """The segments of a drain, in order."""
        query = select(*_FIELDS).where(SEGMENT.c.drain_id == drain_id)
        rows = self._connection.execute(query.order_by(SEGMENT.c.segment_id))
        return [Segment(*row) for row in rows]

    def drained(self, segment_ids: Iterable[str]) -> set[str]:
        """Those of the given segments whose drain is done."""
        query = (
            select(SEGMENT.c.segment_id)
            .join(DRAIN, DRAIN.c.drain_id == SEGMENT.c.drain_id)
            .where(SEGMENT.c.segment_id.in_(list(segment_ids)), DRAIN.c.closed_at.is_not(None))
        )
        return set(self._connection.scalars(query))

    def landed(self, segment_id: str, *, origin: str) -> LandedSegment | None:
        """What is known of a segment; None when nothing is, any more."""
        query = (
            select(SEGMENT.c.messages, DRAIN.c.closed_at.is_not(None))
            .outerjoin(DRAIN, DRAIN.c.drain_id == SEGMENT.c.drain_id)
            .where(SEGMENT.c.segment_id == segment_id, SEGMENT.c.origin == origin)
        )
        row = self._connection.execute(query).one_or_none()
        return None if row is None else LandedSegment(*row)

    def drained_since(self, moment: datetime, *, limit: int) -> list[Segment]:
        """The newest segments whose drain was closed since then."""
        query = (
            select(*_FIELDS)
            .join(DRAIN, DRAIN.c.drain_id == SEGMENT.c.drain_id)
            .where(DRAIN.c.closed_at >= moment)
            .order_by(SEGMENT.c.segment_id.desc())
            .limit(limit)
        )
        return [Segment(*row) for row in self._connection.execute(query)]

    def forget(self, *, drained_before: datetime) -> int:
        """Remove the entries of segments whose drain was closed long ago."""
        long_ago = select(DRAIN.c.drain_id).where(DRAIN.c.closed_at < drained_before)
        statement = delete(SEGMENT).where(SEGMENT.c.drain_id.in_(long_ago))
        return self._connection.execute(statement).rowcount
