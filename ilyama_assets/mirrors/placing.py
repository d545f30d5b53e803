"""Which mirror each change belongs to, and what its schema binds: as the records have it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from operator import itemgetter
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from ilyama_assets.transforms.mirrored_rows import Bound
from ilyama_assets.transforms.newest_changes import SORT, newest_change_per_key, sorts_of
from ilyama_protocol.fingerprint import Affinity
from ilyama_protocol.intake.state import BoundSchema, DeviceState, LineageState, decode_state
from ilyama_protocol.mirror_types import (
    Shared,
    Unmirrored,
    goes_by_values,
    mirrored_columns,
    shared_by,
    unmirrored_columns,
)
from ilyama_resources.delta.device_tables import Mirror
from ilyama_resources.postgres import Gateway

_RANKS: Final = pa.schema(
    [("device_id", pa.string()), ("journal_epoch", pa.string()), ("epoch_rank", pa.int64())]
)
_BINDINGS: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("device_id", "source_table", "schema_hash", "mirror")),
        ("holds_from", pa.int64()),
    ]
)


class Sort(NamedTuple):
    """Changes of one device, table and schema, and what is bound for them."""

    device_id: str
    source_table: str
    schema_hash: str
    mirror: Mirror
    since: int
    """When the first of them came."""
    schema: BoundSchema | None
    unmirrored: Unmirrored
    """Columns that are not to be in the mirror, or not yet."""

    @property
    def columns(self) -> dict[str, Affinity]:
        """The columns that the schema binds in the mirror."""
        return {} if self.schema is None else mirrored_columns(self.schema, self.unmirrored)

    @property
    def goes_by_values(self) -> bool:
        """Whether the type of a column may depend on what these changes say."""
        if self.schema is None or self.since < self.schema.holds_from:
            return True
        return any(map(goes_by_values, self.columns.values()))


class Placing:
    """What the records say of the changes that were asked about."""

    def __init__(self, sorts: Collection[Sort], epochs: Mapping[str, Mapping[str, int]]) -> None:
        self._sorts = sorts
        self.epochs = epochs

    @property
    def mirrors(self) -> list[Mirror]:
        """The mirrors that changes belong to."""
        return sorted({sort.mirror for sort in self._sorts}, key=lambda mirror: mirror.name)

    @cached_property
    def bound(self) -> Bound:
        """What the schemas bind, and what single devices keep out of their mirrors."""
        schemas = {s.schema_hash: s.schema for s in self._sorts if s.schema is not None}
        return Bound(
            {named: mirrored_columns(schema) for named, schema in schemas.items()},
            {(s.device_id, s.schema_hash): s.unmirrored for s in self._sorts if s.unmirrored},
        )

    @cached_property
    def by_values(self) -> set[Mirror]:
        """The mirrors in which the type of a column may depend on what the changes say."""
        return {sort.mirror for sort in self._sorts if sort.goes_by_values}

    def devices_of(self, mirror: Mirror) -> list[str]:
        """The devices whose changes belong to a mirror."""
        return sorted(self._devices.get(mirror, ()))

    @cached_property
    def _devices(self) -> dict[Mirror, set[str]]:
        of_mirrors: dict[Mirror, set[str]] = {}
        for sort in self._sorts:
            of_mirrors.setdefault(sort.mirror, set()).add(sort.device_id)
        return of_mirrors

    def affinities_of(self, mirror: Mirror) -> Mapping[str, Shared]:
        """The affinities of a mirror's columns, wide enough for all of its schemas."""
        return self._affinities.get(mirror, {})

    @cached_property
    def _affinities(self) -> dict[Mirror, dict[str, Shared]]:
        of_mirrors: dict[Mirror, list[tuple[int, str, str, dict[str, Affinity]]]] = {}
        for s in self._sorts:
            if s.schema is not None:
                told = (s.schema.holds_from, s.device_id, s.schema_hash, s.columns)
                of_mirrors.setdefault(s.mirror, []).append(told)
        return {
            mirror: shared_by(columns for *_, columns in sorted(told, key=itemgetter(0, 1, 2)))
            for mirror, told in of_mirrors.items()
        }

    def newest(self, session: SparkSession, changes: DataFrame) -> DataFrame:
        """The newest of the changes, each with its mirror."""
        ranks = [
            {"device_id": device_id, "journal_epoch": epoch, "epoch_rank": rank}
            for device_id, epochs in self.epochs.items()
            for epoch, rank in epochs.items()
        ]
        return newest_change_per_key(
            changes,
            ranks=_frame(session, ranks, _RANKS),
            bindings=_frame(session, [*self._bindings()], _BINDINGS),
        )

    def _bindings(self) -> Iterator[dict[str, Any]]:
        for sort in self._sorts:
            holds_from = None if sort.schema is None else sort.schema.holds_from
            told = {"mirror": sort.mirror.name, "holds_from": holds_from}
            yield {name: getattr(sort, name) for name in SORT} | told


def _frame(session: SparkSession, rows: list[dict[str, Any]], schema: pa.Schema) -> DataFrame:
    """Rows as a frame; of none at all, Spark has to be told their types."""
    if not rows:
        return session.createDataFrame([], from_arrow_schema(schema))
    return session.createDataFrame(pa.Table.from_pylist(rows, schema))


class Remembered(NamedTuple):
    """What the records had of some devices at one moment."""

    states: Mapping[str, DeviceState]
    projects: Mapping[str, str | None]

    def mirror_of(self, device_id: str, source_table: str) -> Mirror:
        """The mirror of a device's table."""
        return Mirror(source_table, self.projects.get(device_id))

    def without(self, devices: Collection[str]) -> Remembered:
        """The same of the other devices."""
        states = {d: state for d, state in self.states.items() if d not in devices}
        return Remembered(states, {d: p for d, p in self.projects.items() if d not in devices})

    def source_tables(self, device_id: str) -> Collection[str]:
        """The tables of a device."""
        return self.states.get(device_id, DeviceState()).lineages.keys()

    def lineage_of(self, device_id: str, source_table: str) -> LineageState:
        """What is remembered of a device's table."""
        lineages = self.states.get(device_id, DeviceState()).lineages
        return lineages.get(source_table, LineageState())


def remembered(gateway: Gateway, devices: Collection[str]) -> Remembered:
    """Ask the records about devices."""
    with gateway.transaction() as tx:
        stored = tx.device_states.of(devices)
        projects = tx.devices.projects(devices)
    states = {device_id: decode_state(text.encode()) for device_id, text in stored.items()}
    return Remembered(states, projects)


def place(changes: DataFrame, gateway: Gateway, known: Remembered | None = None) -> Placing:
    """Place changes by what is known of their devices, or else by what the records say now."""
    found = sorts_of(changes).toArrow().to_pylist()
    known = known or remembered(gateway, {sort["device_id"] for sort in found})
    epochs = {device_id: state.epochs for device_id, state in known.states.items()}
    return Placing([_sort(known, **told) for told in found], epochs)


def _sort(
    known: Remembered, *, device_id: str, source_table: str, schema_hash: str, since: int
) -> Sort:
    lineage = known.lineage_of(device_id, source_table)
    return Sort(
        device_id,
        source_table,
        schema_hash,
        mirror=known.mirror_of(device_id, source_table),
        since=since,
        schema=lineage.schemas.get(schema_hash),
        unmirrored=unmirrored_columns(lineage.accepted_schemas().get(schema_hash)),
    )
