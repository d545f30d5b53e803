"""One run: from the changes of new drains to the mirrors that they touch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import functions as F

from ilyama_assets.derived import FIRST_DRAIN
from ilyama_assets.mirrors.columns import continued_columns, only_adds, renewed_columns
from ilyama_assets.mirrors.moving import Moves, moves_of
from ilyama_assets.mirrors.newest import Kinds, Newest, newest_of, newest_of_run, stored_changes
from ilyama_assets.mirrors.writing import MirrorParts, MirrorTable
from ilyama_assets.transforms.mirrored_rows import mirrored_table
from ilyama_resources.delta.device_tables import Mirror, mirror_at, mirror_names
from ilyama_resources.postgres.derived_runs import DerivedRun

MOST_AT_ONCE: Final = 64 * 1024 * 1024
"""Changes of no more bytes than these are taken out of Spark at once."""


class Touched(NamedTuple):
    """A mirror that a run touches, and the columns that it found no place for in it."""

    mirror: Mirror
    left_out: Sequence[str] = ()


def take_up(parts: MirrorParts, run: DerivedRun) -> list[Touched]:
    """Bring every mirror that a run touches up to its last drain, and tell which those are."""
    moves = moves_of(parts, run)
    if run.from_drain > run.to_drain and not moves.devices:
        return []
    with newest_of_run(parts, run, moves.devices) as newest:
        tables = {t.mirror.name: t for t in _touched(parts, run, newest.placing.mirrors, moves)}
        left_out: dict[str, Sequence[str]] = {}
        waiting = {name: table for name, table in tables.items() if not table.is_done}
        for portion in _portions(newest, waiting):
            few = newest.collected(portion.names) if portion.few else {}
            kinds = newest.kinds({name: waiting[name] for name in portion.names}, few)
            for name in portion.names:
                left_out[name] = _take_up_one(
                    parts, run, waiting[name], newest, kinds.get(name, {}), few.get(name)
                )
        if run.from_drain == FIRST_DRAIN:
            _empty_others(parts, run, newest)
    return [Touched(table.mirror, left_out.get(name, ())) for name, table in tables.items()]


def _touched(
    parts: MirrorParts, run: DerivedRun, changed: Sequence[Mirror], moves: Moves
) -> Iterator[MirrorTable]:
    """The mirrors that changes belong to, then others that devices leave."""
    for mirror in changed:
        yield MirrorTable(mirror, parts, run, leaving=moves.leaving.get(mirror, ()))
    for mirror in sorted(moves.leaving.keys() - {*changed}, key=lambda mirror: mirror.name):
        table = MirrorTable(mirror, parts, run, leaving=moves.leaving[mirror])
        if table.is_made:
            yield table


def _take_up_one(
    parts: MirrorParts,
    run: DerivedRun,
    table: MirrorTable,
    newest: Newest,
    kinds: Kinds,
    few: pa.Table | None,
) -> Sequence[str]:
    """Take up the changes of one mirror; `few` are all of them, when they are here already.

    What is returned are the columns that are left out.
    """
    mirror, existing = table.mirror, table.columns
    affinities = newest.placing.affinities_of(mirror)
    anew = run.from_drain == FIRST_DRAIN or not table.is_made
    planned = renewed_columns if anew else continued_columns
    columns, left_out = planned(existing, affinities, kinds)
    if not anew and not only_adds(existing, columns):
        return _renew_from_history(parts, run, table)
    if few is not None:
        changed = mirrored_table(few, columns, newest.placing.bound)
        if table.rewrite(changed, columns, anew=anew):
            return left_out
    if anew:
        table.renew(newest.rows_of(mirror, columns), columns)
    else:
        table.extend(columns)
        table.merge(newest.rows_of(mirror, columns), newest.placing.devices_of(mirror))
    return left_out


class _Portion(NamedTuple):
    """Mirrors that are taken up one after another; of `few`, the changes fit memory together."""

    names: list[str]
    few: bool


def _portions(newest: Newest, tables: Mapping[str, MirrorTable]) -> Iterator[_Portion]:
    sizes = dict.fromkeys(tables, 0) | newest.sizes([*tables])
    small = {n: sizes[n] for n in tables if sizes[n] <= MOST_AT_ONCE and tables[n].is_small}
    for names in fitting_together(small.items(), MOST_AT_ONCE):
        yield _Portion(names, few=True)
    yield _Portion([name for name in tables if name not in small], few=False)


def fitting_together(sizes: Iterable[tuple[str, int]], most: int) -> Iterator[list[str]]:
    """Names in their order, as many at once as their sizes allow; each size is looked at once."""
    held: list[str] = []
    whole = 0
    for name, size in sizes:
        if held and whole + size > most:
            yield held
            held, whole = [], 0
        held.append(name)
        whole += size
    if held:
        yield held


def _renew_from_history(parts: MirrorParts, run: DerivedRun, table: MirrorTable) -> Sequence[str]:
    """Make a mirror anew whose columns no longer hold what comes."""
    mirror, name = table.mirror, table.mirror.name
    of_table = F.col("source_table") == mirror.source_table
    with newest_of(parts, stored_changes(parts, run.to_drain).where(of_table)) as whole:
        are_few = table.is_small and whole.sizes([name]).get(name, 0) <= MOST_AT_ONCE
        few = whole.collected([name]) if are_few else {}
        kinds = whole.kinds({name: table}, few).get(name, {})
        affinities = whole.placing.affinities_of(mirror)
        columns, left_out = renewed_columns(table.columns, affinities, kinds)
        if are_few:
            changed = mirrored_table(few[name], columns, whole.placing.bound)
            table.rewrite(changed, columns, anew=True)
        else:
            table.renew(whole.rows_of(mirror, columns), columns)
    return left_out


def _empty_others(parts: MirrorParts, run: DerivedRun, newest: Newest) -> None:
    """Of a mirror that no change belongs to any more, nothing stays but its columns."""
    touched = {mirror.name for mirror in newest.placing.mirrors}
    for name in {*mirror_names(parts.warehouse.root)} - touched:
        mirror = mirror_at(DeltaTable(parts.warehouse.location(name)))
        table = MirrorTable(mirror, parts, run)
        if table.is_made and not table.is_done:
            table.empty()
