"""One run: from the changes of new drains to the mirrors that they touch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ilyama_assets.derived import FIRST_DRAIN
from ilyama_assets.mirrors.columns import continued_columns, only_adds, renewed_columns
from ilyama_assets.mirrors.placing import Placing, place
from ilyama_assets.mirrors.writing import MirrorParts, MirrorTable
from ilyama_assets.tables import ROW_CHANGES
from ilyama_assets.transforms.mirrored_rows import (
    MIRRORED_FROM,
    kinds_in_columns,
    kinds_in_table,
    mirrored_rows,
    mirrored_table,
)
from ilyama_assets.transforms.newest_changes import changes_until, newest_changes_of_drains
from ilyama_protocol.mirror_types import Shared, ValueKind, goes_by_values, shared
from ilyama_resources.delta.device_tables import Mirror, MirrorColumn, mirror_at, mirror_names
from ilyama_resources.postgres.derived_runs import DerivedRun

MOST_AT_ONCE: Final = 64 * 1024 * 1024
"""Changes of no more bytes than these are taken out of Spark at once."""
_BYTES_OF_A_CHANGE: Final = 500

Kinds = dict[str, set[ValueKind]]


class Newest(NamedTuple):
    """The newest changes of some primary keys, and what the records say of them."""

    changes: DataFrame
    placing: Placing

    def rows_of(self, mirror: Mirror, columns: Sequence[MirrorColumn]) -> DataFrame:
        """The rows that they give in a mirror."""
        own = self.changes.where(F.col("mirror") == mirror.name)
        return mirrored_rows(own, columns, self.placing.bound)

    def sizes(self, names: Sequence[str]) -> dict[str, int]:
        """About how many bytes the changes of mirrors take in memory."""
        size = F.length("row") + F.length("pk") + F.lit(_BYTES_OF_A_CHANGE)
        own = self.changes.where(F.col("mirror").isin([*names]))
        found = own.groupBy("mirror").agg(F.sum(F.coalesce(size, F.lit(_BYTES_OF_A_CHANGE))))
        return {name: int(size) for name, size in found.collect()}

    def collected(self, names: Sequence[str]) -> dict[str, pa.Table]:
        """The changes of some mirrors, in this process."""
        own = self.changes.where(F.col("mirror").isin([*names]))
        found = own.select("mirror", *MIRRORED_FROM).toArrow().combine_chunks()
        return {n: found.filter(pc.equal(found["mirror"], n)).drop(["mirror"]) for n in names}

    def kinds(
        self, tables: Mapping[str, MirrorTable], few: Mapping[str, pa.Table]
    ) -> dict[str, Kinds]:
        """The kinds of values in the columns of each mirror that go by their values.

        `few` are the changes of mirrors that are here already.
        """
        settled, bound = self._settled(tables), self.placing.bound
        here = {n: kinds_in_table(few[n], bound, settled[n]) for n in settled.keys() & few.keys()}
        others = {name: columns for name, columns in settled.items() if name not in few}
        return here | (self._kinds_by_spark(others) if others else {})

    def _kinds_by_spark(self, settled: Mapping[str, frozenset[str]]) -> dict[str, Kinds]:
        found: dict[str, Kinds] = {}
        own = self.changes.where(F.col("mirror").isin([*settled]))
        for row in kinds_in_columns(own, self.placing.bound, settled).collect():
            columns = found.setdefault(row["mirror"], {})
            columns.setdefault(row["column"], set()).add(ValueKind(row["kind"]))
        return found

    def _settled(self, tables: Mapping[str, MirrorTable]) -> dict[str, frozenset[str]]:
        """The columns that do not go by their values, of each mirror that has others."""
        planned = {name: self._affinities(table) for name, table in tables.items()}
        return {
            name: frozenset(n for n, known in affinities.items() if not goes_by_values(known))
            for name, affinities in planned.items()
            if tables[name].mirror in self.placing.by_values
            or any(map(goes_by_values, affinities.values()))
        }

    def _affinities(self, table: MirrorTable) -> dict[str, Shared]:
        """The affinities that the columns of a mirror are to have."""
        affinities = dict(self.placing.affinities_of(table.mirror))
        for column in table.columns:
            known = shared(column.affinity, affinities.get(column.original))
            if known is not None:
                affinities[column.original] = known
        return affinities


def take_up(parts: MirrorParts, run: DerivedRun) -> list[Mirror]:
    """Bring every mirror that a run touches up to its last drain, and tell which those are."""
    if run.from_drain > run.to_drain:
        return []
    with _newest_of_run(parts, run) as newest:
        tables = {m.name: MirrorTable(m, parts, run) for m in newest.placing.mirrors}
        waiting = {name: table for name, table in tables.items() if not table.is_done}
        for portion in _portions(newest, waiting):
            few = newest.collected(portion.names) if portion.few else {}
            kinds = newest.kinds({name: waiting[name] for name in portion.names}, few)
            for name in portion.names:
                _take_up_one(parts, run, waiting[name], newest, kinds.get(name, {}), few.get(name))
        if run.from_drain == FIRST_DRAIN:
            _empty_others(parts, run, newest)
    return newest.placing.mirrors


@contextmanager
def newest_of(parts: MirrorParts, changes: DataFrame) -> Iterator[Newest]:
    """The newest of some changes, computed once however often they are read."""
    placing = place(changes, parts.gateway)
    with _kept(placing.newest(parts.session, changes)) as newest:
        yield Newest(newest, placing)


@contextmanager
def _kept(frame: DataFrame) -> Iterator[DataFrame]:
    kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield kept
    finally:
        kept.unpersist()


def stored_changes(parts: MirrorParts, drain_id: int) -> DataFrame:
    """All changes up to a drain that a mirror may show."""
    parts.warehouse.ensure(ROW_CHANGES)
    location = str(parts.warehouse.location(ROW_CHANGES.name))
    return changes_until(parts.session.read.format("delta").load(location), drain_id)


@contextmanager
def _newest_of_run(parts: MirrorParts, run: DerivedRun) -> Iterator[Newest]:
    """The newest changes of a run's drains; of all, where some were decided before others.

    A release writes rows that were decided when they were staged. A newer change of the same
    primary key may have been taken up since, and, when it was a delete, have left nothing behind.
    """
    until = stored_changes(parts, run.to_drain)
    changes = until.where(F.col("drain_id") >= run.from_drain)
    with parts.gateway.transaction() as tx:
        in_order = tx.drains.wrote_in_order(run.from_drain, run.to_drain)
    if in_order or run.from_drain == FIRST_DRAIN:
        placing = place(changes, parts.gateway)
        few = newest_changes_of_drains(
            parts.session, parts.warehouse, run, epochs=placing.epochs, tasks=parts.tasks
        )
        with _kept(placing.newest(parts.session, few)) as newest:
            yield Newest(newest, placing)
        return
    devices = [row.device_id for row in changes.select("device_id").distinct().collect()]
    with newest_of(parts, until.where(F.col("device_id").isin(devices))) as found:
        yield found


def _take_up_one(
    parts: MirrorParts,
    run: DerivedRun,
    table: MirrorTable,
    newest: Newest,
    kinds: Kinds,
    few: pa.Table | None,
) -> None:
    """Take up the changes of one mirror; `few` are all of them, when they are here already."""
    mirror, existing = table.mirror, table.columns
    affinities = newest.placing.affinities_of(mirror)
    anew = run.from_drain == FIRST_DRAIN or not table.is_made
    planned = renewed_columns if anew else continued_columns
    columns = planned(existing, affinities, kinds)
    if not anew and not only_adds(existing, columns):
        _renew_from_history(parts, run, table)
        return
    if few is not None:
        changed = mirrored_table(few, columns, newest.placing.bound)
        if table.rewrite(changed, columns, anew=anew):
            return
    if anew:
        table.renew(newest.rows_of(mirror, columns), columns)
    else:
        table.extend(columns)
        table.merge(newest.rows_of(mirror, columns), newest.placing.devices_of(mirror))


class _Portion(NamedTuple):
    """Mirrors that are taken up one after another; of `few`, the changes fit memory together."""

    names: list[str]
    few: bool


def _portions(newest: Newest, tables: Mapping[str, MirrorTable]) -> Iterator[_Portion]:
    sizes = newest.sizes([*tables])
    small = [n for n in tables if sizes.get(n, 0) <= MOST_AT_ONCE and tables[n].is_small]
    held: list[str] = []
    for name in small:
        if held and sum(sizes.get(n, 0) for n in [*held, name]) > MOST_AT_ONCE:
            yield _Portion(held, few=True)
            held = []
        held.append(name)
    if held:
        yield _Portion(held, few=True)
    yield _Portion([name for name in tables if name not in {*small}], few=False)


def _renew_from_history(parts: MirrorParts, run: DerivedRun, table: MirrorTable) -> None:
    """Make a mirror anew whose columns no longer hold what comes."""
    mirror, name = table.mirror, table.mirror.name
    of_table = F.col("source_table") == mirror.source_table
    with newest_of(parts, stored_changes(parts, run.to_drain).where(of_table)) as whole:
        are_few = table.is_small and whole.sizes([name]).get(name, 0) <= MOST_AT_ONCE
        few = whole.collected([name]) if are_few else {}
        kinds = whole.kinds({name: table}, few).get(name, {})
        columns = renewed_columns(table.columns, whole.placing.affinities_of(mirror), kinds)
        if are_few:
            changed = mirrored_table(few[name], columns, whole.placing.bound)
            table.rewrite(changed, columns, anew=True)
        else:
            table.renew(whole.rows_of(mirror, columns), columns)


def _empty_others(parts: MirrorParts, run: DerivedRun, newest: Newest) -> None:
    """Of a mirror that no change belongs to any more, nothing stays but its columns."""
    touched = {mirror.name for mirror in newest.placing.mirrors}
    for name in {*mirror_names(parts.warehouse.root)} - touched:
        mirror = mirror_at(DeltaTable(parts.warehouse.location(name)))
        table = MirrorTable(mirror, parts, run)
        if table.is_made and not table.is_done:
            table.empty()
