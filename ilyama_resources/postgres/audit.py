"""The audit log: who did what to which resource, and how it was before and after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, insert, select

from ilyama_resources.postgres.copying import shown
from ilyama_resources.postgres.paging import newest_first
from ilyama_resources.postgres.schema import AUDIT_LOG


class AuditEntry(NamedTuple):
    """One line of the log."""

    audit_id: int
    at: datetime
    actor: str
    verb: str
    resource: str
    old: Any
    new: Any


class Act(NamedTuple):
    """What somebody did."""

    actor: str
    verb: str
    resource: str
    old: Any = None
    new: Any = None


class AuditFilter(NamedTuple):
    """Which lines are asked for; what is None does not narrow."""

    resource: str | None = None
    actor: str | None = None
    verb: str | None = None


EVERYTHING = AuditFilter()

_FIELDS = [AUDIT_LOG.c[name] for name in AuditEntry._fields]


class AuditLog:
    """The log; the database refuses every change of what it says."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def record(
        self, *, actor: str, verb: str, resource: str, old: Any = None, new: Any = None
    ) -> None:
        """Add a line; it stands or falls with the transaction that it tells of."""
        self.record_all([Act(actor, verb, resource, old, new)])

    def record_all(self, acts: Iterable[Act]) -> None:
        """Add a line for each of many acts."""
        now = datetime.now(UTC)
        lines = [{"at": now} | _storable(act._asdict()) for act in acts]
        if lines:
            self._connection.execute(select(func.ensure_audit_month(now)))
            self._connection.execute(insert(AUDIT_LOG), lines)

    def page(
        self, wanted: AuditFilter = EVERYTHING, *, limit: int, before: int | None = None
    ) -> list[AuditEntry]:
        """The newest lines first, below a number when one is given."""
        query = newest_first(select(*_FIELDS), AUDIT_LOG.c.audit_id, before=before, limit=limit)
        for name, word in wanted._asdict().items():
            if word is not None:
                query = query.where(AUDIT_LOG.c[name] == shown(word))
        return [AuditEntry(*row) for row in self._connection.execute(query)]


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, Mapping):
        return {shown(str(name)): _storable(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_storable(item) for item in value]
    return value
