"""The device tables of a platform, read as a person would: by the devices' own names."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from ilyama_assets.checks.mirrors import Chosen, Compared, chosen_tables, compared_mirrors
from ilyama_assets.device_tables import bring_up
from ilyama_assets.mirrors.moving import MirrorProgress
from ilyama_assets.mirrors.writing import MirrorParts
from ilyama_resources.delta.device_tables import (
    Mirror,
    MirrorColumn,
    columns_of,
    mirror_at,
    mirror_names,
)
from tests.platform import Platform

Row = dict[str, Any]


class Mirrors:
    """The device tables of a platform."""

    def __init__(self, platform: Platform, session: SparkSession) -> None:
        """Look at the tables of a platform."""
        self._platform = platform
        gateway, warehouse = platform.gateway, platform.warehouse
        self.parts = MirrorParts.of(session, gateway, warehouse, platform.settings)
        self.progress = MirrorProgress(platform.gateway)

    def derive(self, *, rebuild: bool = False) -> list[Mirror]:
        """Take up what was drained since the last time; the tables that it touched."""
        _, touched = bring_up(self.progress, self.parts, rebuild=rebuild)
        return [one.mirror for one in touched]

    def all(self) -> list[Mirror]:
        """Every device table that there is."""
        root = self._platform.settings.warehouse
        return [mirror_at(DeltaTable(root / name)) for name in mirror_names(root)]

    def columns(self, source_table: str, project: str | None = None) -> dict[str, MirrorColumn]:
        """The columns of a table by the names they have on the device."""
        return {c.original: c for c in columns_of(self.delta(source_table, project))}

    def types(self, source_table: str, project: str | None = None) -> dict[str, str]:
        """The types of a table's columns by the names they have on the device."""
        return {name: c.type.value for name, c in self.columns(source_table, project).items()}

    def names(self, source_table: str, project: str | None = None) -> list[str]:
        """The names of all columns in Delta."""
        return [f.name for f in self.delta(source_table, project).schema().fields]

    def version(self, source_table: str, project: str | None = None) -> int:
        """The newest version of a table."""
        return self.delta(source_table, project).version()

    def stored(self, source_table: str, project: str | None = None) -> list[Row]:
        """The rows as Delta holds them."""
        return list(pa.table(self.delta(source_table, project).to_pyarrow_table()).to_pylist())

    def rows(self, source_table: str, project: str | None = None) -> dict[tuple[str, str], Row]:
        """What the devices' columns hold, by device and primary key; not those that are null."""
        columns = self.columns(source_table, project)
        return {
            (row["device_id"], row["__pk"]): {
                original: row[column.name]
                for original, column in columns.items()
                if row[column.name] is not None
            }
            for row in self.stored(source_table, project)
        }

    def differing(self, chosen: Chosen | None = None) -> int:
        """How many rows and columns are not what a recomputation says."""
        return sum(t.wrong + len(t.missing) + len(t.narrow) for t in self.compared(chosen))

    def compared(self, chosen: Chosen | None = None) -> list[Compared]:
        """Every table beside its recomputation."""
        return list(compared_mirrors(self.parts, chosen or self.chosen()))

    def chosen(self) -> Chosen:
        """All tables as they are now."""
        return chosen_tables(self.parts, 1_000)

    def delta(self, source_table: str, project: str | None = None) -> DeltaTable:
        """A table as any other writer would open it."""
        return DeltaTable(self.parts.warehouse.location(Mirror(source_table, project).name))
