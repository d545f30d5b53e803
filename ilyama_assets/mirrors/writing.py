"""How rows get into a mirror: small ones are written whole, into large ones Spark merges."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from ilyama_assets.derived import counted_once, done_once, write_once
from ilyama_assets.tables import TEXT
from ilyama_assets.transforms.mirrored_rows import (
    OPERATION,
    changes_schema,
    described,
    mirror_schema,
)
from ilyama_assets.transforms.newest_changes import MOST_LITERALS
from ilyama_assets.transforms.newest_in_arrow import newest_rows
from ilyama_protocol.mirror_names import DEVICE_COLUMN
from ilyama_resources.delta.data_files import TableColumn, TableContract
from ilyama_resources.delta.device_tables import Mirror, MirrorColumn, columns_of
from ilyama_resources.delta.warehouse import Warehouse
from ilyama_resources.faults import crash_point
from ilyama_resources.postgres import Gateway
from ilyama_resources.postgres.derived_runs import DerivedRun
from ilyama_resources.settings import Settings

MOST_HELD: Final = 128 * 1024 * 1024
"""A table of more bytes than these in memory is not written whole, however well it compresses."""
_INCOMING: Final = "incoming_mirror"
_IS_NEWER: Final = (
    "(s.`__epoch_rank` > t.`__epoch_rank` OR "
    "(s.`__epoch_rank` = t.`__epoch_rank` AND s.`__commit_seq` > t.`__commit_seq`))"
)


class MirrorParts(NamedTuple):
    """What mirrors are made with."""

    session: SparkSession
    gateway: Gateway
    warehouse: Warehouse
    tasks: int
    rewrite_bytes: int
    """Tables whose files have fewer bytes than these are written whole by every run."""

    @classmethod
    def of(
        cls, session: SparkSession, gateway: Gateway, warehouse: Warehouse, settings: Settings
    ) -> MirrorParts:
        """The parts as the settings want them."""
        return cls(session, gateway, warehouse, settings.cores, settings.device_table_rewrite_bytes)


class MirrorTable:
    """One device table, as a run finds it and leaves it."""

    def __init__(
        self,
        mirror: Mirror,
        parts: MirrorParts,
        run: DerivedRun,
        *,
        leaving: Collection[str] = (),
    ) -> None:
        """`leaving` are devices whose rows go out of it."""
        self.mirror = mirror
        self._leaving = sorted(leaving)
        self._parts = parts
        self._run = run
        warehouse = parts.warehouse
        self._recorded = warehouse.recorded(mirror.name) if warehouse.holds(mirror.name) else 0

    @property
    def is_done(self) -> bool:
        """Whether the table has taken up the run."""
        return self._recorded >= self._run.number

    @property
    def is_made(self) -> bool:
        """Whether some run has written the table."""
        return self._recorded > 0

    @cached_property
    def columns(self) -> list[MirrorColumn]:
        """The columns that come from the devices, as the run finds them."""
        return columns_of(self._delta) if self.is_made else []

    @property
    def _delta(self) -> DeltaTable:
        return DeltaTable(self._parts.warehouse.location(self.mirror.name))

    @property
    def is_small(self) -> bool:
        """Whether all of it can be taken into memory and written again."""
        files = self._parts.warehouse.files(self.mirror.name) if self.is_made else []
        return sum(file.size for file in files) < self._parts.rewrite_bytes

    def rewrite(
        self, changed: pa.Table, columns: Sequence[MirrorColumn], *, anew: bool = False
    ) -> bool:
        """Put the newest of what is there and of what comes in its place; anew, what comes alone.

        What Spark needs seconds for is done here in some milliseconds, for tables that are small.
        False: what is there is too much for memory, however small its files are.
        """
        if not self.is_made:
            self._ensure()
        names = mirror_schema(columns).names

        def merged(table: DeltaTable) -> pa.Table | None:
            stored = changed.slice(0, 0) if anew else _stored(table, changed.schema)
            if stored is None:
                return None
            return newest_living([self._staying(stored), changed]).select(names)

        with self._writing():
            return self._parts.warehouse.overwrite(self.mirror.name, self._run.number, merged)

    def _staying(self, rows: pa.Table) -> pa.Table:
        leaves = pc.is_in(rows[DEVICE_COLUMN], pa.array(self._leaving, pa.string()))
        return rows.filter(pc.invert(leaves))

    def empty(self) -> None:
        """Leave nothing but the columns."""
        self.rewrite(changes_schema(self.columns).empty_table(), self.columns, anew=True)

    def _ensure(self) -> None:
        device = TableColumn(DEVICE_COLUMN, TEXT, "device")
        contract = TableContract(self.mirror.name, self.mirror.description, (device,))
        self._parts.warehouse.ensure(contract)

    def renew(self, rows: DataFrame, columns: Sequence[MirrorColumn]) -> None:
        """Put rows, columns and types in the place of all that was there, in one commit."""
        self._ensure()
        name = self.mirror.name
        writer = described(rows, columns).write.format("delta").mode("overwrite")
        anew = writer.option("overwriteSchema", "true")
        with self._spark_writing():
            done_once(lambda: anew.save(str(self._parts.warehouse.location(name))))

    def extend(self, columns: Sequence[MirrorColumn]) -> None:
        """Add the columns that are missing, after those of the devices."""
        existing = self.columns
        before = existing[-1].name if existing else DEVICE_COLUMN
        added = []
        for column in columns[len(existing) :]:
            comment = sql_text(column.comment)
            added.append(f"`{column.name}` {column.type} COMMENT {comment} AFTER `{before}`")
            before = column.name
        if added:
            statement = f"ALTER TABLE {self._target} ADD COLUMNS ({', '.join(added)})"
            with self._parts.gateway.lock(f"table {self.mirror.name}"):
                self._parts.session.sql(statement).collect()

    def merge(self, rows: DataFrame, devices: Sequence[str]) -> None:
        """Take up changes that are newer than what is there; a delete takes its row away."""
        rows.createOrReplaceTempView(_INCOMING)
        is_delete = f"s.`{OPERATION}` = 'delete'"
        same = "t.`device_id` = s.`device_id` AND t.`__source_pk_hash` = s.`__source_pk_hash`"
        within = _within([*devices, *self._leaving])
        with self._spark_writing():
            write_once(
                self._parts.session,
                f"MERGE INTO {self._target} t USING {_INCOMING} s ON {same}{within} "
                f"WHEN MATCHED AND {_IS_NEWER} AND {is_delete} THEN DELETE "
                f"WHEN MATCHED AND {_IS_NEWER} THEN UPDATE SET * "
                f"WHEN NOT MATCHED AND NOT ({is_delete}) THEN INSERT *{self._departure}",
            )

    @property
    def _departure(self) -> str:
        """What a MERGE does with rows of devices that leave."""
        if not self._leaving:
            return ""
        theirs = ", ".join(map(sql_text, self._leaving))
        return f" WHEN NOT MATCHED BY SOURCE AND t.`device_id` IN ({theirs}) THEN DELETE"

    @property
    def _target(self) -> str:
        return f"delta.`{self._parts.warehouse.location(self.mirror.name)}`"

    @contextmanager
    def _writing(self) -> Iterator[None]:
        crash_point("mirror_write.before")
        with self._parts.gateway.lock(f"table {self.mirror.name}"):
            yield
        crash_point("mirror_write.after")

    @contextmanager
    def _spark_writing(self) -> Iterator[None]:
        """Let Spark's next statement count once."""
        identity = self._parts.warehouse.transaction_id(self.mirror.name)
        with self._writing(), counted_once(self._parts.session, identity, self._run):
            yield


def newest_living(tables: Sequence[pa.Table]) -> pa.Table:
    """The newest of each row among some tables, unless that is a delete."""
    rows = pa.concat_tables(tables)
    order = [rows[name].to_numpy() for name in ("__epoch_rank", "__commit_seq")]
    newest = newest_rows(rows, key=(DEVICE_COLUMN, "__source_pk_hash"), order=order)
    return newest.filter(pc.not_equal(newest[OPERATION], "delete"))


def _stored(table: DeltaTable, changes: pa.Schema) -> pa.Table | None:
    """What a table holds, as changes to the columns that it gets now; None: too much of it."""
    batches, size = [], 0
    for batch in table.to_pyarrow_dataset().to_batches():
        size += batch.nbytes
        if size > MOST_HELD:
            return None
        batches.append(batch)
    if not batches:
        return changes.empty_table()
    held = pa.Table.from_batches(batches)
    columns = [
        held[field.name].cast(field.type)
        if field.name in held.column_names
        else pa.nulls(held.num_rows, field.type)
        for field in changes
        if field.name != OPERATION
    ]
    return pa.Table.from_arrays([*columns, pa.repeat("update", held.num_rows)], schema=changes)


def _within(devices: Sequence[str]) -> str:
    """What lets Delta leave out files: it looks at literals only."""
    if len(devices) > MOST_LITERALS:
        return ""
    return f" AND t.`device_id` IN ({', '.join(map(sql_text, devices))})"


def sql_text(text: str) -> str:
    """A literal of Spark's SQL; whatever could end it is written by its number."""
    units = memoryview(text.encode("utf-16-le")).cast("H")
    return f"'{''.join(map(_sql_unit, units))}'"


def _sql_unit(unit: int) -> str:
    character = chr(unit)
    is_plain = character.isascii() and character.isalnum()
    return character if is_plain else f"\\u{unit:04x}"
