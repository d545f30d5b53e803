"""The runs of derived tables: each takes the drains since the one before."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from sqlalchemy import Connection, delete, func, insert, select, tuple_, update
from sqlalchemy.exc import IntegrityError

from ilyama_resources.errors import PlatformError
from ilyama_resources.postgres.schema import DERIVED_RUN


class DerivedRunMoved(PlatformError):
    """Another process derives the same table."""


class DerivedRun(NamedTuple):
    """One step of a derived table: the drains from..to, both included."""

    asset: str
    number: int
    from_drain: int
    to_drain: int


_FIELDS = [DERIVED_RUN.c[name] for name in DerivedRun._fields]


class DerivedRuns:
    """How far each derived table has come."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def unfinished(self, asset: str) -> DerivedRun | None:
        """The run that was opened and not closed, if there is one."""
        query = select(*_FIELDS).where(
            DERIVED_RUN.c.asset == asset, DERIVED_RUN.c.closed_at.is_(None)
        )
        row = self._connection.execute(query).first()
        return None if row is None else DerivedRun(*row)

    def last(self, asset: str) -> DerivedRun:
        """The newest closed run; number 0 when there was none."""
        query = (
            select(*_FIELDS)
            .where(DERIVED_RUN.c.asset == asset, DERIVED_RUN.c.closed_at.is_not(None))
            .order_by(DERIVED_RUN.c.number.desc())
            .limit(1)
        )
        row = self._connection.execute(query).first()
        return DerivedRun(asset, 0, 0, 0) if row is None else DerivedRun(*row)

    def open(self, run: DerivedRun) -> None:
        """Begin a run.

        Raises:
            DerivedRunMoved: another process has begun it.
        """
        values = run._asdict() | {"opened_at": datetime.now(UTC)}
        try:
            self._connection.execute(insert(DERIVED_RUN).values(**values))
        except IntegrityError as error:
            raise DerivedRunMoved(
                f"run {run.number} of {run.asset} was opened by another process meanwhile"
            ) from error

    def close(self, run: DerivedRun) -> None:
        """Mark a run done."""
        statement = update(DERIVED_RUN).where(
            DERIVED_RUN.c.asset == run.asset, DERIVED_RUN.c.number == run.number
        )
        self._connection.execute(statement.values(closed_at=datetime.now(UTC)))

    def forget(self, *, closed_before: datetime) -> None:
        """Remove runs of long ago; the newest of each table stays, for it goes on from there."""
        closed = DERIVED_RUN.c.closed_at.is_not(None)
        newest = (
            select(DERIVED_RUN.c.asset, func.max(DERIVED_RUN.c.number))
            .where(closed)
            .group_by(DERIVED_RUN.c.asset)
        )
        run = tuple_(DERIVED_RUN.c.asset, DERIVED_RUN.c.number)
        self._connection.execute(
            delete(DERIVED_RUN).where(DERIVED_RUN.c.closed_at < closed_before, run.not_in(newest))
        )
