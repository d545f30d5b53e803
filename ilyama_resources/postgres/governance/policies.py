"""What projects and tables chose of the governance policies."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from sqlalchemy import Connection, literal, select, tuple_
from sqlalchemy.dialects.postgresql import insert

from ilyama_protocol.governance.policies import FirstSchema, PolicyChoice, PolicyScope
from ilyama_resources.postgres.copying import shown
from ilyama_resources.postgres.schema import GOVERNANCE_POLICY

_SCOPE = [GOVERNANCE_POLICY.c[name] for name in PolicyScope._fields]
_CHOICE = [GOVERNANCE_POLICY.c[name] for name in PolicyChoice.__struct_fields__]


class Policies:
    """The choices by scope."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def of(self, project_ids: Iterable[str]) -> dict[PolicyScope, PolicyChoice]:
        """What the given projects and their tables chose."""
        chosen = GOVERNANCE_POLICY.c.project_id.in_(list(project_ids))
        rows = self._connection.execute(select(*_SCOPE, *_CHOICE).where(chosen))
        return {PolicyScope(row[0], row[1]): _choice(*row[2:]) for row in rows}

    def all(self) -> dict[PolicyScope, PolicyChoice]:
        """What everybody chose, by project and table."""
        rows = self._connection.execute(select(*_SCOPE, *_CHOICE).order_by(*_SCOPE))
        return {PolicyScope(row[0], row[1]): _choice(*row[2:]) for row in rows}

    def page(self, *, after: PolicyScope | None, limit: int) -> list[PolicyScope]:
        """The next scopes for which something was chosen, in the order of project and table."""
        query = select(*_SCOPE).order_by(*_SCOPE).limit(limit)
        if after is not None:
            query = query.where(tuple_(*_SCOPE) > tuple_(*map(literal, after)))
        return [PolicyScope(*row) for row in self._connection.execute(query)]

    def choose(self, scope: PolicyScope, choice: PolicyChoice) -> None:
        """Set what a scope chose, in place of what it chose before."""
        chosen = {name: getattr(choice, name) for name in PolicyChoice.__struct_fields__}
        statement = insert(GOVERNANCE_POLICY).values(
            project_id=shown(scope.project_id),
            source_table=shown(scope.source_table),
            changed_at=datetime.now(UTC),
            **chosen,
        )
        names = [*chosen, "changed_at"]
        self._connection.execute(
            statement.on_conflict_do_update(
                index_elements=_SCOPE, set_={name: statement.excluded[name] for name in names}
            )
        )


def _choice(first_schema: str | None, *others: bool | None) -> PolicyChoice:
    return PolicyChoice(None if first_schema is None else FirstSchema(first_schema), *others)
