"""Agreement: the devices of a project share a device table, so its columns have one affinity each.

What the table has is pinned when a drain is planned. Two devices that bring the first schema of a
table in the same drain know nothing of each other: here they are compared, and the first stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from ilyama_protocol.governance.rules import ProjectRules, TableRules

_Table = tuple[str, str]
_Tables = dict[_Table, dict[str, str]]


class Place(NamedTuple):
    """Where a message stands in the order in which everything arrived."""

    landed_at: int
    segment_id: str
    position: int


class Claim(NamedTuple):
    """What a schema that a policy accepted says of the columns of its project's device table."""

    arrived: Place
    device_id: str
    project_id: str
    source_table: str
    affinities: dict[str, str]


def settled(
    claims: Iterable[Claim], projects: Mapping[str, ProjectRules]
) -> dict[str, ProjectRules] | None:
    """The rules by which those who disagree are to be decided again; None when nobody does."""
    tables: _Tables = {}
    lost: set[tuple[str, _Table]] = set()
    for claim in sorted(claims):
        table = (claim.project_id, claim.source_table)
        standing = tables.setdefault(table, {**_rules(projects, *table).device_table})
        if any(standing.get(name, told) != told for name, told in claim.affinities.items()):
            lost.add((claim.device_id, table))
        elif (claim.device_id, table) not in lost:
            standing |= claim.affinities
    disputed = {table: tables[table] for _, table in lost}
    return _with(projects, disputed) if lost else None


def _rules(projects: Mapping[str, ProjectRules], project_id: str, table: str) -> TableRules:
    return projects.get(project_id, ProjectRules()).of(table)


def _with(projects: Mapping[str, ProjectRules], tables: _Tables) -> dict[str, ProjectRules]:
    changed = dict(projects)
    for (project_id, table), affinities in tables.items():
        rules = changed.get(project_id, ProjectRules())
        told = msgspec.structs.replace(rules.of(table), device_table=affinities)
        changed[project_id] = msgspec.structs.replace(rules, tables={**rules.tables, table: told})
    return changed
