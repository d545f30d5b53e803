"""Ledger totals: what every drain did with what it received, by device and table."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from typing import NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    ScalarSelect,
    cast,
    delete,
    func,
    insert,
    literal,
    null,
    select,
    tuple_,
    union_all,
)
from sqlalchemy.dialects.postgresql import insert as insert_or_update

from ilyama_resources.postgres.copying import copied, shown
from ilyama_resources.postgres.schema import DRAIN, LEDGER_TOTAL, PAST_DRAINS


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


_TOTALS = LedgerTotal._fields[LedgerTotal._fields.index("messages") :]


class LedgerFilter(NamedTuple):
    """Which sums are asked for; what is None does not narrow."""

    origin: str = "live"
    day: date | None = None
    device_id: str | None = None
    source_table: str | None = None
    kind: str | None = None
    outcome: str | None = None

    @property
    def covers_whole_segments(self) -> bool:
        """Whether the sums can be held against the segments, which know no devices."""
        return self.origin == "live" and self[2:] == (None,) * len(self[2:])


class LedgerPlace(NamedTuple):
    """What a sum is of, and where a page of sums ended."""

    day: date
    device_id: str
    source_table: str
    kind: str
    outcome: str


class LedgerSum(NamedTuple):
    """A sum over all drains of a day; an unknown device, table or kind is the empty text."""

    day: date
    device_id: str
    source_table: str
    kind: str
    outcome: str
    messages: int
    rows_received: int
    rows_new: int
    rows_duplicate: int
    rows_conflict: int
    rows_below_floor: int
    rows_rejected: int
    rows_staged: int

    @property
    def place(self) -> LedgerPlace:
        """Where a page that ends with this sum ends."""
        return LedgerPlace(*self[:5])


class LedgerBalance(NamedTuple):
    """Both sides of the books; what cannot be counted on the segments is None."""

    messages_received: int | None
    messages: int
    rows_received: int
    rows_new: int
    rows_duplicate: int
    rows_rejected: int
    rows_staged: int

    @property
    def balanced(self) -> bool:
        """Whether every message that was received, and every row in it, is accounted for."""
        rows = self.rows_new + self.rows_duplicate + self.rows_rejected + self.rows_staged
        return self.messages_received in (None, self.messages) and self.rows_received == rows


class OutcomeSum(NamedTuple):
    """What had one outcome."""

    outcome: str
    messages: int
    rows: int


_PLACE = [LEDGER_TOTAL.c[name] for name in LedgerPlace._fields]
_COUNTS = LedgerSum._fields[len(LedgerPlace._fields) :]


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

    def roll_up(self, *, before: date) -> int:
        """Make one line of many: of days long past, the sums of all drains go to the day's last."""
        last = (
            select(DRAIN.c.day, DRAIN.c.origin, func.max(DRAIN.c.drain_id).label("drain_id"))
            .where(DRAIN.c.day < before, DRAIN.c.state == "done")
            .group_by(DRAIN.c.day, DRAIN.c.origin)
            .subquery()
        )
        gone = (
            delete(LEDGER_TOTAL)
            .where(
                LEDGER_TOTAL.c.day == last.c.day,
                LEDGER_TOTAL.c.origin == last.c.origin,
                LEDGER_TOTAL.c.drain_id != last.c.drain_id,
            )
            .returning(last.c.drain_id, *LEDGER_TOTAL.columns[1:])
            .cte("gone")
        )
        group = [gone.c[name] for name in LedgerTotal._fields[: -len(_TOTALS)]]
        sums = [func.sum(gone.c[name]) for name in _TOTALS]
        statement = insert_or_update(LEDGER_TOTAL).from_select(
            list(LedgerTotal._fields), select(*group, *sums).group_by(*group)
        )
        added = {name: LEDGER_TOTAL.c[name] + statement.excluded[name] for name in _TOTALS}
        return self._connection.execute(
            statement.on_conflict_do_update(
                index_elements=list(LEDGER_TOTAL.primary_key), set_=added
            )
        ).rowcount

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

    def page(
        self, wanted: LedgerFilter, *, after: LedgerPlace | None, limit: int
    ) -> list[LedgerSum]:
        """The next sums in the order of day, device, table, kind and outcome."""
        query = select(*_PLACE, *map(_sum_of, _COUNTS)).where(*_narrowed(wanted))
        if after is not None:
            query = query.where(tuple_(*_PLACE) > tuple_(*map(literal, after)))
        query = query.group_by(*_PLACE).order_by(*_PLACE).limit(limit)
        return [LedgerSum(*row) for row in self._connection.execute(query)]

    def balance(self, wanted: LedgerFilter) -> LedgerBalance:
        """Both sides of the books in one look, so that no drain closes in between."""
        received = _received(wanted) if wanted.covers_whole_segments else null()
        sums = [_sum_of(name) for name in LedgerBalance._fields[1:]]
        query = select(received, *sums).select_from(LEDGER_TOTAL).where(*_narrowed(wanted))
        return LedgerBalance(*self._connection.execute(query).one())

    def by_outcome(self, wanted: LedgerFilter) -> list[OutcomeSum]:
        """Messages and rows by what became of them."""
        outcome = LEDGER_TOTAL.c.outcome
        query = select(outcome, _sum_of("messages"), _sum_of("rows_received"))
        query = query.where(*_narrowed(wanted)).group_by(outcome).order_by(outcome)
        return [OutcomeSum(*row) for row in self._connection.execute(query)]


def _sum_of(name: str) -> ColumnElement[int]:
    return cast(func.coalesce(func.sum(LEDGER_TOTAL.c[name]), 0), BigInteger)


def _narrowed(wanted: LedgerFilter) -> list[ColumnElement[bool]]:
    return [
        LEDGER_TOTAL.c[name] == (shown(value) if isinstance(value, str) else value)
        for name, value in wanted._asdict().items()
        if value is not None
    ]


def _received(wanted: LedgerFilter) -> ScalarSelect[int]:
    """What the segments of closed drains held; a drain notes that when it takes them."""
    kept = select(DRAIN.c.day, DRAIN.c.messages).where(
        DRAIN.c.state == "done", DRAIN.c.origin == wanted.origin
    )
    forgotten = select(PAST_DRAINS.c.day, PAST_DRAINS.c.messages).where(
        PAST_DRAINS.c.origin == wanted.origin
    )
    taken = union_all(kept, forgotten).subquery()
    query = select(cast(func.coalesce(func.sum(taken.c.messages), 0), BigInteger))
    if wanted.day is not None:
        query = query.where(taken.c.day == wanted.day)
    return query.scalar_subquery()
