"""Devices that left a project, until a run of the device tables has taken their rows along."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, delete, insert, select, update

from ilyama_resources.postgres.schema import DEVICE_TABLE_MOVE

_M = DEVICE_TABLE_MOVE.c


class Leaving(NamedTuple):
    """A device, and a project whose device tables may still have its rows; None is none."""

    device_id: str
    project_id: str | None


class DeviceTableMoves:
    """The devices whose rows are to follow them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def note(self, leaving: Leaving) -> None:
        """Let the next run take the rows of a device along."""
        values = {_M.device_id: leaving.device_id, _M.left_project: leaving.project_id}
        self._connection.execute(insert(DEVICE_TABLE_MOVE).values(values))

    def wait(self) -> bool:
        """Whether any rows are to follow their devices."""
        return self._connection.execute(select(_M.move_id).limit(1)).first() is not None

    def devices(self) -> set[str]:
        """The devices whose rows are still on their way."""
        return {*self._connection.scalars(select(_M.device_id))}

    def take(self, run: int) -> bool:
        """Give a run all that wait; whether there were any. Later ones are for the next run."""
        waiting = update(DEVICE_TABLE_MOVE).where(_M.taken_up_by.is_(None))
        return self._connection.execute(waiting.values(taken_up_by=run)).rowcount > 0

    def of_run(self, run: int) -> list[Leaving]:
        """What a run was given."""
        query = select(_M.device_id, _M.left_project).where(_M.taken_up_by == run)
        return [Leaving(*row) for row in self._connection.execute(query.order_by(_M.move_id))]

    def settle(self, run: int) -> None:
        """Forget what a run has done."""
        self._connection.execute(delete(DEVICE_TABLE_MOVE).where(_M.taken_up_by == run))
