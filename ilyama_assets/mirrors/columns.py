"""Which columns a mirror has: those that are there stay, new ones follow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ilyama_protocol.mirror_names import LONGEST_NAME, column_name, folded
from ilyama_protocol.mirror_types import MOST_COLUMNS, Kinds, Shared, shared, type_of, widened
from ilyama_resources.delta.device_tables import MirrorColumn

Affinities = Mapping[str, Shared]
KindsByColumn = Mapping[str, Kinds]


class Plan(NamedTuple):
    """The columns that a mirror is to have."""

    columns: list[MirrorColumn]
    left_out: list[str]
    """Columns for which it has no room, or whose names are too long; by their names on devices."""


def continued_columns(
    existing: Sequence[MirrorColumn], affinities: Affinities, kinds: KindsByColumn
) -> Plan:
    """The columns of a mirror that takes up more; one that changes wants it to be made anew."""
    kept = [_continued(c, affinities, kinds.get(c.original, ())) for c in existing]
    return _with_new(kept, affinities, kinds)


def renewed_columns(
    existing: Sequence[MirrorColumn], affinities: Affinities, kinds: KindsByColumn
) -> Plan:
    """The columns of a mirror that is made anew, of whose values all kinds are known."""
    kept = [_renewed(c, affinities, kinds.get(c.original, ())) for c in existing]
    return _with_new(kept, affinities, kinds)


def only_adds(existing: Sequence[MirrorColumn], planned: Sequence[MirrorColumn]) -> bool:
    """Whether planned columns are those that exist and then others."""
    return list(planned[: len(existing)]) == list(existing)


def _continued(column: MirrorColumn, affinities: Affinities, kinds: Kinds) -> MirrorColumn:
    if shared(column.affinity, affinities.get(column.original)) != column.affinity:
        return _renewed(column, affinities, kinds)
    return column._replace(type=widened(column.type, column.affinity, kinds))


def _renewed(column: MirrorColumn, affinities: Affinities, kinds: Kinds) -> MirrorColumn:
    affinity = shared(column.affinity, affinities.get(column.original))
    return column._replace(affinity=affinity, type=type_of(affinity, kinds) or column.type)


def _with_new(kept: Sequence[MirrorColumn], affinities: Affinities, kinds: KindsByColumn) -> Plan:
    plan = Plan([*kept], [])
    taken = {folded(column.name) for column in kept}
    for original, affinity in _new(kept, affinities, kinds):
        sort = type_of(affinity, kinds.get(original, ()))
        if sort is None:
            continue
        if len(plan.columns) >= MOST_COLUMNS or len(original) > LONGEST_NAME:
            plan.left_out.append(original)
            continue
        column = MirrorColumn(original, column_name(original, taken), affinity, sort)
        plan.columns.append(column)
        taken.add(folded(column.name))
    return plan


def _new(
    kept: Sequence[MirrorColumn], affinities: Affinities, kinds: KindsByColumn
) -> Iterator[tuple[str, Shared | None]]:
    known = {column.original for column in kept}
    for original in dict.fromkeys([*affinities, *sorted(kinds)]):
        if original not in known:
            yield original, affinities.get(original)
