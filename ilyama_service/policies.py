"""What people choose for new schemas: each choice leaves a line in the audit."""

from __future__ import annotations

from collections.abc import Callable

from ilyama_protocol.governance.policies import (
    EVERY_TABLE,
    NO_PROJECT,
    Policy,
    PolicyChoice,
    PolicyScope,
    resolved,
)
from ilyama_protocol.validation.envelopes import is_table_name
from ilyama_resources.errors import PlatformError
from ilyama_resources.postgres import Transaction


class UnfitScope(PlatformError):
    """No table can have the name that a policy is chosen for."""


class Policies:
    """What holds for new schemas, within a transaction that is the caller's to commit."""

    def __init__(self, default: Policy) -> None:
        """Where no project chose, `default` holds."""
        self._default = default

    def of_table(self, tx: Transaction, project_id: str | None, source_table: str) -> Policy:
        """What holds for a table of a project."""
        scope = PolicyScope(project_id or NO_PROJECT, source_table)
        return resolved(self._default, tx.policies.of([scope.project_id]), scope)

    def choose(
        self, tx: Transaction, scope: PolicyScope, choice: PolicyChoice, *, actor: str
    ) -> Policy:
        """Set the policies of a project or table; tell what holds there now."""
        return self.change(tx, scope, lambda _: choice, actor=actor)

    def change(
        self,
        tx: Transaction,
        scope: PolicyScope,
        changed: Callable[[PolicyChoice], PolicyChoice],
        *,
        actor: str,
    ) -> Policy:
        """Make another choice of the present one; nobody else chooses in between."""
        if scope.source_table != EVERY_TABLE and not is_table_name(scope.source_table):
            raise UnfitScope("no table of a device can have this name")
        tx.reviews.alone()
        choices = tx.policies.of([scope.project_id])
        old = choices.get(scope, PolicyChoice())
        choice = changed(old)
        tx.policies.choose(scope, choice)
        tx.audit.record(
            actor=actor,
            verb="set",
            resource=f"policy/{scope.project_id}/{scope.source_table}",
            old=_told(old),
            new=_told(choice),
        )
        return resolved(self._default, choices | {scope: choice}, scope)


def _told(choice: PolicyChoice) -> dict[str, object]:
    return {name: getattr(choice, name) for name in PolicyChoice.__struct_fields__}
