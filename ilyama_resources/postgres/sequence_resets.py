"""Requests to let the numbers of telemetry batches begin anew; the next drain applies them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from sqlalchemy import Connection, delete, select
from sqlalchemy.dialects.postgresql import insert

from ilyama_resources.postgres.schema import SEQUENCE_RESET


class SequenceReset(NamedTuple):
    """A request that waits for a drain of its device."""

    reset_id: int
    device_id: str
    source_table: str


_FIELDS = [SEQUENCE_RESET.c[name] for name in SequenceReset._fields]


class SequenceResets:
    """The requests that wait."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def request(self, device_id: str, source_table: str) -> bool:
        """Ask for a reset; False when one is asked for already."""
        values = {"device_id": device_id, "source_table": source_table}
        statement = insert(SEQUENCE_RESET).values(**values, requested_at=datetime.now(UTC))
        done = self._connection.execute(statement.on_conflict_do_nothing())
        return done.rowcount == 1

    def of_devices(self, device_ids: Iterable[str]) -> list[SequenceReset]:
        """What is asked for of the given devices."""
        query = select(*_FIELDS).where(SEQUENCE_RESET.c.device_id.in_(list(device_ids)))
        return [SequenceReset(*row) for row in self._connection.execute(query)]

    def settle(self, resets: Iterable[SequenceReset]) -> None:
        """Forget requests that a drain has applied."""
        ids = [reset.reset_id for reset in resets]
        if ids:
            applied = SEQUENCE_RESET.c.reset_id.in_(ids)
            self._connection.execute(delete(SEQUENCE_RESET).where(applied))
