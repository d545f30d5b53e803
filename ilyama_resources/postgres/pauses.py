"""Paused lineages: each for one or several reasons, of which each is cleared on its own."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, delete, select, tuple_
from sqlalchemy.dialects.postgresql import insert

from ilyama_protocol.intake.lineage_rulings import PauseReason
from ilyama_resources.postgres.current_instances import Lineage
from ilyama_resources.postgres.pairs import these
from ilyama_resources.postgres.schema import LINEAGE_PAUSE


class Pause(NamedTuple):
    """One reason why a lineage is paused."""

    device_id: str
    source_table: str
    reason: PauseReason
    since: datetime
    note: str | None


_FIELDS = [LINEAGE_PAUSE.c[name] for name in Pause._fields]
_LINEAGE = tuple_(LINEAGE_PAUSE.c.device_id, LINEAGE_PAUSE.c.source_table)


class Pauses:
    """The record of paused lineages."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def of_devices(self, device_ids: Iterable[str]) -> dict[str, dict[str, list[str]]]:
        """The pause reasons of the given devices, by device and table."""
        wanted = LINEAGE_PAUSE.c.device_id.in_(list(device_ids))
        query = select(*_FIELDS[:3]).where(wanted).order_by(*_FIELDS[:3])
        found: dict[str, dict[str, list[str]]] = {}
        for device_id, table, reason in self._connection.execute(query):
            found.setdefault(device_id, {}).setdefault(table, []).append(reason)
        return found

    def of(self, device_id: str, source_table: str) -> list[Pause]:
        """Why one lineage is paused; nothing when it is active."""
        return self._found(_LINEAGE.in_(these([(device_id, source_table)])))

    def add(
        self, lineages: Iterable[Lineage], reason: PauseReason, *, note: str | None = None
    ) -> None:
        """Pause lineages for a reason; those that are paused for it already stay as they are."""
        now = datetime.now(UTC)
        rows = [Pause(*lineage, reason, now, note)._asdict() for lineage in sorted(set(lineages))]
        if rows:
            self._connection.execute(insert(LINEAGE_PAUSE).on_conflict_do_nothing(), rows)

    def clear(self, lineages: Iterable[Lineage], reason: PauseReason) -> int:
        """Take a reason away, and return how many lineages were paused for it."""
        cleared = delete(LINEAGE_PAUSE).where(
            LINEAGE_PAUSE.c.reason == reason, _LINEAGE.in_(these(lineages))
        )
        return self._connection.execute(cleared).rowcount

    def _found(self, *conditions: ColumnElement[bool]) -> list[Pause]:
        query = select(*_FIELDS).where(*conditions).order_by(*_FIELDS[:3])
        rows = self._connection.execute(query)
        return [Pause(device, table, PauseReason(r), *more) for device, table, r, *more in rows]
