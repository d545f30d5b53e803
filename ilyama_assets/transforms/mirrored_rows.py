"""Rows of device tables from row changes: tasks of Spark read the JSON and make typed columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ilyama_protocol.fingerprint import Affinity
from ilyama_protocol.mirror_names import DEVICE_COLUMN
from ilyama_protocol.mirror_types import (
    MirrorType,
    Mixed,
    Unmirrored,
    ValueKind,
    fitted,
    is_of_kind,
    kept_out_until,
    kinds_of,
)
from ilyama_resources.delta.device_tables import MirrorColumn

OPERATION: Final = "__op"
"""On the way only: what a change does to its row."""

OWN_COLUMNS: Final = {
    "__pk": ("pk", "string", "primary key as sent"),
    "__source_pk_hash": ("source_pk_hash", "string", "SHA-256 of the canonical primary key"),
    "__journal_epoch": ("journal_epoch", "string", "journal that numbered the change"),
    "__epoch_rank": ("epoch_rank", "bigint", "when that journal first came, in microseconds"),
    "__commit_seq": ("commit_seq", "bigint", "number of the change within its journal"),
    "__schema_hash": ("schema_hash", "string", "fingerprint of the schema it came with"),
    "__batch_id": ("batch_id", "string", "batch it came in"),
    "__received_at": ("received_at", "timestamp", "when it came"),
    "__drain_id": ("drain_id", "bigint", "drain that wrote it"),
}
"""The platform's columns of every device table: of which column of the change, type, meaning."""

_ARROW_TYPES: Final = {
    MirrorType.LONG.value: pa.int64(),
    MirrorType.DOUBLE.value: pa.float64(),
    MirrorType.TEXT.value: pa.string(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
MIRRORED_FROM: Final = (
    *(DEVICE_COLUMN, "op", "row", "bound"),
    *(column for column, _, _ in OWN_COLUMNS.values()),
)
"""What of a change goes into its row."""

_FOUND: Final = "mirror string, column string, kind string"
_FOUND_SCHEMA: Final = pa.schema([(name, pa.string()) for name in ("mirror", "column", "kind")])

Row = dict[str, Any]
_rows = msgspec.json.Decoder(list[Row])


class Bound(NamedTuple):
    """Which columns the rows may fill."""

    columns: Mapping[str, Mapping[str, Affinity]]
    """By schema hash, those that it names."""
    unmirrored: Mapping[tuple[str, str], Unmirrored] = {}
    """By device and schema hash, those that are kept out, and until when."""


def mirrored_rows(changes: DataFrame, columns: Sequence[MirrorColumn], bound: Bound) -> DataFrame:
    """The rows of one device table, deletes among them as `__op` says."""
    types = {DEVICE_COLUMN: "string", **{column.name: column.type for column in columns}}
    types |= {name: kind for name, (_, kind, _) in OWN_COLUMNS.items()} | {OPERATION: "string"}
    declared = ", ".join(f"{_quoted(name)} {kind}" for name, kind in types.items())
    told = changes.select(*MIRRORED_FROM)
    make = partial(_mirrored, columns=columns, bound=bound)
    return told.mapInArrow(partial(_each, make=make), declared)


def mirrored_table(changes: pa.Table, columns: Sequence[MirrorColumn], bound: Bound) -> pa.Table:
    """The same of changes that are here already."""
    made = [_mirrored(batch, columns=columns, bound=bound) for batch in changes.to_batches()]
    schema = changes_schema(columns)
    return pa.Table.from_batches(made).cast(schema) if made else schema.empty_table()


def mirror_schema(columns: Sequence[MirrorColumn]) -> pa.Schema:
    """What a device table with these columns looks like, comments included."""
    return pa.schema(
        pa.field(name, _ARROW_TYPES[kind], metadata={"comment": comment})
        for name, (kind, comment) in _held(columns).items()
    )


def changes_schema(columns: Sequence[MirrorColumn]) -> pa.Schema:
    """What changes to such a table look like: its rows, and what is done to them."""
    return mirror_schema(columns).append(pa.field(OPERATION, pa.string()))


def _held(columns: Sequence[MirrorColumn]) -> dict[str, tuple[str, str]]:
    """The type in SQL and the comment of each column that a table holds."""
    held = {DEVICE_COLUMN: ("string", "device that has the row")}
    held |= {column.name: (column.type.value, column.comment) for column in columns}
    return held | {name: (kind, meaning) for name, (_, kind, meaning) in OWN_COLUMNS.items()}


def described(rows: DataFrame, columns: Sequence[MirrorColumn]) -> DataFrame:
    """The rows that live, as the table holds them, each column with its comment."""
    live = rows.where(F.col(OPERATION) != "delete")
    # What tasks return has texts with a collation, by a name that delta-rs does not know.
    return live.select(
        *(
            F.col(_quoted(name)).cast(kind).alias(name, metadata={"comment": comment})
            for name, (kind, comment) in _held(columns).items()
        )
    )


def kinds_in_columns(
    changes: DataFrame, bound: Bound, settled: Mapping[str, frozenset[str]]
) -> DataFrame:
    """The kinds of values in each column of each mirror, but for those whose type is settled."""
    told = changes.where("op <> 'delete'").select(
        "mirror", "device_id", "row", "bound", "schema_hash", "received_at"
    )
    find = partial(_kinds, bound=bound, settled=settled)
    return told.mapInArrow(partial(_each, make=find), _FOUND).distinct()


def kinds_in_table(
    changes: pa.Table, bound: Bound, settled: frozenset[str]
) -> dict[str, set[ValueKind]]:
    """The same of changes of one mirror that are here already."""
    rows = (row for batch in changes.to_batches() for row in _contents(batch, bound))
    return _kinds_by_column(rows, settled)


def _each(
    batches: Iterator[pa.RecordBatch], *, make: Callable[[pa.RecordBatch], pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows:
            yield make(batch)


def _mirrored(
    batch: pa.RecordBatch, *, columns: Sequence[MirrorColumn], bound: Bound
) -> pa.RecordBatch:
    rows = _contents(batch, bound)
    arrays = [batch["device_id"]]
    for column in columns:
        values = [row.get(column.original) for row in rows]
        if column.affinity is Mixed.MIXED:
            values = _of_their_kind(values, batch, column.original, bound)
        held = fitted(values, column.type, column.affinity)
        arrays.append(pa.array(held, _ARROW_TYPES[column.type]))
    arrays += [batch[name] for name, _, _ in OWN_COLUMNS.values()]
    names = [DEVICE_COLUMN, *(column.name for column in columns), *OWN_COLUMNS, OPERATION]
    return pa.record_batch([*arrays, batch["op"]], names)


def _of_their_kind(
    values: list[Any], batch: pa.RecordBatch, column: str, bound: Bound
) -> list[Any]:
    """Values of a column on which devices disagree: each goes by what its own schema says."""
    hashes, are_bound = batch["schema_hash"].to_pylist(), batch["bound"].to_pylist()
    own = (
        bound.columns[schema_hash].get(column) if is_bound else None
        for schema_hash, is_bound in zip(hashes, are_bound, strict=True)
    )
    return [v if is_of_kind(v, told) else None for v, told in zip(values, own, strict=True)]


def _contents(batch: pa.RecordBatch, bound: Bound) -> list[Row]:
    """What the changes say of the columns that their schemas bind; nothing for a delete."""
    texts = batch["row"].to_pylist()
    rows = _rows.decode("[" + ",".join(text or "{}" for text in texts) + "]")
    hashes, are_bound = batch["schema_hash"].to_pylist(), batch["bound"].to_pylist()
    for index, (schema_hash, is_bound) in enumerate(zip(hashes, are_bound, strict=True)):
        if is_bound and not rows[index].keys() <= bound.columns[schema_hash].keys():
            names = bound.columns[schema_hash]
            rows[index] = {name: v for name, v in rows[index].items() if name in names}
    return _without(batch, rows, bound) if bound.unmirrored else rows


def _without(batch: pa.RecordBatch, rows: list[Row], bound: Bound) -> list[Row]:
    """The rows without what their devices keep out of the mirror."""
    sorts = zip(batch["device_id"].to_pylist(), batch["schema_hash"].to_pylist(), strict=True)
    kept_out = [bound.unmirrored.get(sort, {}) for sort in sorts]
    moments = batch["received_at"].cast(pa.int64()).to_pylist()
    return [
        {name: v for name, v in row.items() if kept_out_until(name, until) <= at} if until else row
        for row, until, at in zip(rows, kept_out, moments, strict=True)
    ]


def _kinds(
    batch: pa.RecordBatch, *, bound: Bound, settled: Mapping[str, frozenset[str]]
) -> pa.RecordBatch:
    rows: dict[str, list[Row]] = {}
    for mirror, row in zip(batch["mirror"].to_pylist(), _contents(batch, bound), strict=True):
        rows.setdefault(mirror, []).append(row)
    found = [
        (mirror, name, kind)
        for mirror, own in rows.items()
        for name, kinds in _kinds_by_column(own, settled.get(mirror, frozenset())).items()
        for kind in kinds
    ]
    columns = [list(column) for column in zip(*found, strict=True)] or [[], [], []]
    return pa.record_batch(
        [pa.array(column, pa.string()) for column in columns], schema=_FOUND_SCHEMA
    )


def _kinds_by_column(rows: Iterable[Row], settled: frozenset[str]) -> dict[str, set[ValueKind]]:
    columns: defaultdict[str, list[Any]] = defaultdict(list)
    for row in rows:
        for name, value in row.items():
            columns[name].append(value)
    return {name: kinds_of(v) for name, v in columns.items() if name not in settled}


def _quoted(name: str) -> str:
    return f"`{name}`"
