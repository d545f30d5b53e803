"""Ledger totals: what every drain did with what it received, by device and table."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from typing import NamedTuple

from sqlalchemy import Connection, func, insert, select

from ilyama_resources.postgres.copying import copied
from ilyama_resources.postgres.schema import DRAIN, LEDGER_TOTAL


class LedgerTotal(NamedTuple):
    """A sum over ledger lines; an unknown device, table or kind is the empty text."""

    drain_id: int
    device_id: str
    source_table: str
    kind: str
    outcome: str
    day: date
    origin: str
    messages: int
    rows_received: int
    rows_new: int
    rows_duplicate: int
    rows_conflict: int
    rows_below_floor: int
    rows_rejected: int
    rows_staged: int


class HourlyIntake(NamedTuple):
    """What the drains closed within one hour took in."""

    hour: datetime
    outcome: str
    messages: int
    rows: int


class Ledger:
    """The sums of the ledger."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, totals: Iterable[LedgerTotal]) -> None:
        """Add the totals of a drain."""
        incoming = copied(self._connection, LEDGER_TOTAL, totals)
        self._connection.execute(
            insert(LEDGER_TOTAL).from_select(list(LedgerTotal._fields), select(incoming))
        )

    def hourly(self, since: datetime) -> list[HourlyIntake]:
        """Intake by the hour in which its drain was closed."""
        hour = func.date_trunc("hour", DRAIN.c.closed_at)
        query = (
            select(
                hour,
                LEDGER_TOTAL.c.outcome,
                func.sum(LEDGER_TOTAL.c.messages),
                func.sum(LEDGER_TOTAL.c.rows_received),
            )
            .join(DRAIN, DRAIN.c.drain_id == LEDGER_TOTAL.c.drain_id)
            .where(DRAIN.c.closed_at >= since)
            .group_by(hour, LEDGER_TOTAL.c.outcome)
            .order_by(hour)
        )
        rows = self._connection.execute(query)
        return [HourlyIntake(at, outcome, int(m), int(r)) for at, outcome, m, r in rows]

    def rows_new_on(self, day: date) -> int:
        """How many new rows arrived on a day."""
        query = select(func.coalesce(func.sum(LEDGER_TOTAL.c.rows_new), 0)).where(
            LEDGER_TOTAL.c.day == day, LEDGER_TOTAL.c.origin == "live"
        )
        return int(self._connection.scalar(query) or 0)

    def messages_by_device(self, *, since: datetime) -> list[tuple[str, int]]:
        """How many messages each device sent that were drained since then, most first."""
        messages = func.sum(LEDGER_TOTAL.c.messages)
        query = (
            select(LEDGER_TOTAL.c.device_id, messages)
            .join(DRAIN, DRAIN.c.drain_id == LEDGER_TOTAL.c.drain_id)
            .where(DRAIN.c.closed_at >= since)
            .group_by(LEDGER_TOTAL.c.device_id)
            .order_by(messages.desc(), LEDGER_TOTAL.c.device_id)
        )
        return [(device_id, int(count)) for device_id, count in self._connection.execute(query)]
