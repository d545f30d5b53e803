"""The identity of the warehouse that belongs to these records."""

from __future__ import annotations

from uuid import uuid4

from sqlalchemy import Connection, select, update
from sqlalchemy.dialects.postgresql import insert

from ilyama_resources.postgres.schema import WAREHOUSE


class Warehouses:
    """One warehouse per record database."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def identity(self) -> str:
        """The warehouse's UUID, made on first use."""
        fresh = insert(WAREHOUSE).values(id=1, warehouse_id=str(uuid4()), stale_after_h=24)
        self._connection.execute(fresh.on_conflict_do_nothing())
        return str(self._connection.scalars(select(WAREHOUSE.c.warehouse_id)).one())

    def set_staleness(self, hours: float) -> None:
        """Fix the age at which a served value is called stale."""
        self._connection.execute(update(WAREHOUSE).values(stale_after_h=hours))
