"""Events: what happened that somebody may want to know of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import NAMESPACE_URL, uuid5

from sqlalchemy import Connection, Text, cast, select
from sqlalchemy.dialects.postgresql import insert

from ilyama_resources.postgres.pairs import those_not_in
from ilyama_resources.postgres.schema import EVENT


class EventOrigin(StrEnum):
    """How an event came to be."""

    CAUGHT = "caught"
    CAUSED = "caused"
    DERIVED = "derived"
    SCHEDULED = "scheduled"


class Severity(StrEnum):
    """How much an event matters."""

    INFO = "INFO"
    WARN = "WARN"
    ERROR = "ERROR"


class Event(NamedTuple):
    """Something that happened to the platform as a whole."""

    identity: str
    """The same for the same happening, so that it is written once however often it is seen."""
    event_type: str
    severity: Severity
    message: str
    details: Mapping[str, Any]
    origin: EventOrigin = EventOrigin.CAUGHT

    @property
    def event_id(self) -> str:
        """The id of the event."""
        return str(uuid5(NAMESPACE_URL, f"ilyama:{self.event_type}:{self.identity}"))


class WrittenEvent(NamedTuple):
    """An event as it is stored."""

    event_id: str
    at: datetime
    event_type: str
    severity: str
    message: str
    details: dict[str, Any]


class Events:
    """The record of events."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def write(self, event: Event) -> bool:
        """Write an event; False when it was written before."""
        statement = insert(EVENT).values(
            event_id=event.event_id,
            at=datetime.now(UTC),
            event_type=event.event_type,
            origin=event.origin,
            severity=event.severity,
            owner_kind="global",
            message=event.message,
            details=dict(event.details),
        )
        return self._connection.execute(statement.on_conflict_do_nothing()).rowcount == 1

    def newest(self, *, limit: int) -> list[WrittenEvent]:
        """The newest events, newest first."""
        fields = [EVENT.c[name] for name in WrittenEvent._fields]
        query = select(*fields).order_by(EVENT.c.at.desc(), EVENT.c.event_id).limit(limit)
        return [WrittenEvent(*row) for row in self._connection.execute(query)]

    def unknown(self, event_ids: Iterable[str]) -> set[str]:
        """Those of the ids that are no event's."""
        return {*self._connection.scalars(those_not_in(cast(EVENT.c.event_id, Text), event_ids))}
