"""The newest changes of a run, or of whatever is asked about, and what the records say of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Final, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ilyama_assets.derived import FIRST_DRAIN
from ilyama_assets.mirrors.placing import Placing, Remembered, place
from ilyama_assets.mirrors.writing import MirrorParts
from ilyama_assets.tables import ROW_CHANGES
from ilyama_assets.transforms.mirrored_rows import (
    MIRRORED_FROM,
    kinds_in_columns,
    kinds_in_table,
    mirrored_rows,
)
from ilyama_assets.transforms.newest_changes import (
    CHANGE,
    CHANGE_DDL,
    changes_until,
    deletes_of_keys,
    keys_of_drains,
    newest_changes_of_drains,
)
from ilyama_protocol.mirror_types import Shared, ValueKind, goes_by_values, shared
from ilyama_resources.delta.device_tables import Mirror, MirrorColumn
from ilyama_resources.postgres.derived_runs import DerivedRun

_BYTES_OF_A_CHANGE: Final = 500

Kinds = dict[str, set[ValueKind]]


class WithColumns(Protocol):
    """A mirror, and the columns that it has."""

    @property
    def mirror(self) -> Mirror:
        """Which one it is."""

    @property
    def columns(self) -> Sequence[MirrorColumn]:
        """The columns that come from the devices."""


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
        return tables_by_name(own.select("mirror", *MIRRORED_FROM).toArrow(), "mirror", names)

    def kinds(
        self, tables: Mapping[str, WithColumns], few: Mapping[str, pa.Table]
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

    def _settled(self, tables: Mapping[str, WithColumns]) -> dict[str, frozenset[str]]:
        """The columns that do not go by their values, of each mirror that has others."""
        planned = {name: self._affinities(table) for name, table in tables.items()}
        return {
            name: frozenset(n for n, known in affinities.items() if not goes_by_values(known))
            for name, affinities in planned.items()
            if tables[name].mirror in self.placing.by_values
            or any(map(goes_by_values, affinities.values()))
        }

    def _affinities(self, table: WithColumns) -> dict[str, Shared]:
        """The affinities that the columns of a mirror are to have."""
        affinities = dict(self.placing.affinities_of(table.mirror))
        for column in table.columns:
            known = shared(column.affinity, affinities.get(column.original))
            if known is not None:
                affinities[column.original] = known
        return affinities


def tables_by_name(rows: pa.Table, column: str, names: Sequence[str]) -> dict[str, pa.Table]:
    """The rows that have each name in a column, which they are told apart by and then without."""
    sorted_rows = rows.combine_chunks().sort_by(column)
    counts = {c["values"]: c["counts"] for c in pc.value_counts(sorted_rows[column]).to_pylist()}
    starts = dict(zip(counts, accumulate(counts.values(), initial=0), strict=False))
    told = sorted_rows.drop([column])
    return {name: told.slice(starts.get(name, 0), counts.get(name, 0)) for name in names}


@contextmanager
def newest_of(
    parts: MirrorParts, changes: DataFrame, known: Remembered | None = None
) -> Iterator[Newest]:
    """The newest of some changes, computed once however often they are read."""
    placing = place(changes, parts.gateway, known)
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
def newest_of_run(parts: MirrorParts, run: DerivedRun, moved: Collection[str]) -> Iterator[Newest]:
    """The newest changes of a run's drains, beside the deletes that none of them may undo.

    Of devices that moved, the newest of all.
    """
    changes = stored_changes(parts, run.to_drain).where(F.col("drain_id") >= run.from_drain)
    with _deletes_to_respect(parts, run, changes) as deletes:
        earlier = deletes.unionByName(_changes_before(parts, run, moved))
        placing = place(changes.select(*CHANGE).unionByName(earlier), parts.gateway)
        few = newest_changes_of_drains(
            parts.session, parts.warehouse, run, epochs=placing.epochs, tasks=parts.tasks
        )
        with _kept(placing.newest(parts.session, few.unionByName(earlier))) as newest:
            yield Newest(newest, placing)


def _changes_before(parts: MirrorParts, run: DerivedRun, devices: Collection[str]) -> DataFrame:
    """All changes of some devices before those of a run."""
    if not devices:
        return parts.session.createDataFrame([], CHANGE_DDL)
    before = stored_changes(parts, run.from_drain - 1)
    return before.where(F.col("device_id").isin([*devices])).select(*CHANGE)


@contextmanager
def _deletes_to_respect(
    parts: MirrorParts, run: DerivedRun, changes: DataFrame
) -> Iterator[DataFrame]:
    """Deletes of earlier runs, of the primary keys that a release has written in this one.

    A release writes rows that were decided when they were staged. A newer change of the same
    primary key may have been taken up since. If that left a row, the row tells that it is newer;
    a delete has left nothing. What other drains wrote is newer than all that was taken up.
    """
    drains = _out_of_order(parts, run)
    if not drains:
        yield parts.session.createDataFrame([], CHANGE_DDL)
        return
    before = stored_changes(parts, run.from_drain - 1)
    with _kept(keys_of_drains(changes, drains)) as keys:
        places = keys.select("device_id", "source_table").distinct().toArrow()
        with _kept(deletes_of_keys(before, keys, places)) as deletes:
            yield deletes


def _out_of_order(parts: MirrorParts, run: DerivedRun) -> list[int]:
    """The drains of a run that may have written what was decided before an earlier run."""
    if run.from_drain == FIRST_DRAIN:
        return []
    with parts.gateway.transaction() as tx:
        return tx.drains.out_of_order(run.from_drain, run.to_drain)
