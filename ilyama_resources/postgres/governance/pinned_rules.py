"""What was decided of devices and their projects, as drains go by it: a few queries for all."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from ilyama_protocol.governance.bindings import Binding, ColumnAction, shared_affinities
from ilyama_protocol.governance.policies import NO_PROJECT, Choices, Policy, PolicyScope, resolved
from ilyama_protocol.governance.rules import DeviceRules, ProjectRules, TableRules
from ilyama_resources.postgres import Transaction
from ilyama_resources.postgres.governance.bindings import BindingScope, ScopeKind, StoredBinding
from ilyama_resources.postgres.governance.reviews import PAUSED_FOR_REVIEW


class PinnedRules(NamedTuple):
    """The rules for single devices, and those of all their projects."""

    devices: dict[str, DeviceRules]
    projects: dict[str, ProjectRules]


def pinned_rules(tx: Transaction, device_ids: Collection[str], default: Policy) -> PinnedRules:
    """The rules as they are now; `default` is the policy where nobody chose another."""
    projects = tx.devices.projects(device_ids)
    own = _by_scope(
        tx, ((ScopeKind.DEVICE, device_id) for device_id in device_ids), approved_only=True
    )
    pauses = tx.pauses.of_devices(device_ids)
    lapsed, backlog = _by_device(tx.reviews.lapsed(pauses)), tx.backlog.tables_of(device_ids)
    rejected = _by_device_and_table(tx.reviews.rejected(device_ids))
    devices = {
        name: DeviceRules(
            projects.get(name),
            pauses.get(name, {}),
            lapsed.get(name, []),
            _approved(own, name),
            backlog.get(name, []),
            rejected.get(name, {}),
        )
        for name in device_ids
    }
    for rules in devices.values():
        _let_lapse(rules)
    named = {NO_PROJECT, *filter(None, projects.values())}
    return PinnedRules(devices, _project_rules(tx, named, default))


def _let_lapse(rules: DeviceRules) -> None:
    for table in rules.lapsed:
        rules.pauses[table] = [r for r in rules.pauses[table] if r != PAUSED_FOR_REVIEW]


def _by_device(lineages: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for device_id, table in lineages:
        found.setdefault(device_id, []).append(table)
    return found


def _by_device_and_table(
    schemas: Iterable[tuple[str, str, str]],
) -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = {}
    for device_id, table, schema_hash in schemas:
        found.setdefault(device_id, {}).setdefault(table, []).append(schema_hash)
    return found


_OfScope = dict[str, list[StoredBinding]]


def _by_scope(
    tx: Transaction, scopes: Iterable[tuple[str, str]], *, approved_only: bool = False
) -> _OfScope:
    found: _OfScope = {}
    wanted = (BindingScope(*scope) for scope in scopes)
    for binding in tx.bindings.of(wanted, approved_only=approved_only):
        found.setdefault(binding.scope.scope_id, []).append(binding)
    return found


def _approved(
    own: _OfScope, device_id: str
) -> dict[str, dict[str, dict[str, ColumnAction] | None]]:
    found: dict[str, dict[str, dict[str, ColumnAction] | None]] = {}
    for binding in own.get(device_id, ()):
        found.setdefault(binding.source_table, {})[binding.schema_hash] = binding.actions
    return found


def _project_rules(
    tx: Transaction, projects: Collection[str], default: Policy
) -> dict[str, ProjectRules]:
    choices = tx.policies.of(projects)
    bound = _by_scope(tx, ((ScopeKind.PROJECT, project) for project in projects if project))
    rules = {
        project: ProjectRules(resolved(default, choices, PolicyScope(project)))
        for project in projects
    }
    for scope in choices:
        _table_rules(rules, scope, default, choices)
    for project, bindings in bound.items():
        for binding in bindings:
            scope = PolicyScope(project, binding.source_table)
            _take_in(_table_rules(rules, scope, default, choices), binding)
        for binding in sorted(bindings, key=lambda binding: binding.bound_at):
            _give_affinities(rules[project].tables[binding.source_table], binding)
    return rules


def _table_rules(
    rules: dict[str, ProjectRules], scope: PolicyScope, default: Policy, choices: Choices
) -> TableRules:
    tables = rules[scope.project_id].tables
    if scope.source_table not in tables:
        tables[scope.source_table] = TableRules(resolved(default, choices, scope))
    return tables[scope.source_table]


def _take_in(rules: TableRules, binding: StoredBinding) -> None:
    """Add what one schema binds; of a column the last that was decided stands."""
    if binding.approved:
        bound = Binding.approved(binding.holds_from, binding.actions)
        names = [column.name for column in binding.columns or ()] or (binding.actions or {})
        rules.approved[binding.schema_hash] = binding.actions
        rules.bound |= {name: bound.action(name) for name in names}


def _give_affinities(rules: TableRules, binding: StoredBinding) -> None:
    """Add the affinities of one schema; of a column the first that was bound stands."""
    told = shared_affinities(binding.columns or (), binding.actions)
    rules.device_table = told | rules.device_table
