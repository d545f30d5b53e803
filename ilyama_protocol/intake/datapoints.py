"""Row changes as typed datapoints: one per bound column that a row has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from ilyama_protocol.canonical import canonical_json
from ilyama_protocol.fingerprint import METRIC_AFFINITIES
from ilyama_protocol.governance.bindings import Binding
from ilyama_protocol.identifiers import key_of
from ilyama_protocol.intake.state import BoundSchema
from ilyama_protocol.messages import RowBatch, TelemetryBatch

SOURCE = "edge.rows"
SOURCE_RULE = "edge.row_batch"
TELEMETRY_SOURCE = "edge.telemetry"
TELEMETRY_SOURCE_RULE = "edge.telemetry_batch"
SOURCE_RULE_VERSION = 1
OWNER_KIND = "component"
PROVENANCE = "observed"
KIND_MISMATCH = "kind_mismatch"

_NUMBERS = frozenset({int, float})
_NULLABLE_NUMBERS = _NUMBERS | {type(None)}
_NULLABLE_DOUBLES = frozenset({float, type(None)})
_NULLABLE_TEXT = frozenset({str, type(None)})


class DatapointKind(StrEnum):
    """The table a datapoint belongs to."""

    METRIC = "metric"
    STATE = "state"


class Points(msgspec.Struct):
    """The datapoints that one column of a batch gives: parallel lists, one entry per row."""

    kind: DatapointKind
    key: str
    rows: Sequence[int]
    values: list[Any]
    quarantine_reason: str | None = None

    @property
    def table(self) -> str:
        """The table they go to: a key has one value at a moment in each."""
        if self.quarantine_reason is not None:
            return "quarantined_datapoints"
        return f"{self.kind.value}_datapoint"


def affinities_of(schema: BoundSchema) -> dict[str, str]:
    """The affinity of each column that a schema names."""
    return {column.name: column.decl_type_affinity for column in schema.columns}


def datapoints_of(
    batch: RowBatch, rows: Sequence[int], affinities: Mapping[str, str] | None, binding: Binding
) -> list[Points]:
    """The datapoints of the given rows, by column; `affinities` is None while unknown."""
    return _existence(batch, rows) + _of_columns(batch, rows, affinities, binding)


def sampled_points(
    batch: TelemetryBatch, affinities: Mapping[str, str] | None, binding: Binding
) -> list[Points]:
    """The datapoints of all rows of a telemetry batch, by field."""
    return _of_columns(batch, range(len(batch.ts_us)), affinities, binding)


def _of_columns(
    batch: RowBatch | TelemetryBatch,
    rows: Sequence[int],
    affinities: Mapping[str, str] | None,
    binding: Binding,
) -> list[Points]:
    points: list[Points] = []
    columns = batch.contents.of(rows)
    keys = binding.keys(batch.source_table, columns)
    for column, (at, values) in columns.items():
        key = keys.get(column)
        if key is None:
            continue
        if affinities is None:
            points += _by_own_type(key, at, values)
        elif column in affinities:
            points += _by_affinity(key, at, values, affinities[column])
    return points


def fits_kind(values: Iterable[Any], *, metric: bool) -> list[bool]:
    """Whether each value is of the kind of its column; null fits every one."""
    return [v is None or (type(v) in _NUMBERS) == metric for v in values]


def _existence(batch: RowBatch, rows: Sequence[int]) -> list[Points]:
    if batch.op.count("update") == len(batch.op):
        return []
    key = key_of(batch.source_table, None)
    told = [i for i in rows if batch.op[i] != "update"]
    values = ["true" if batch.op[i] == "delete" else "false" for i in told]
    return [Points(DatapointKind.STATE, key, told, values)] if told else []


def _by_affinity(key: str, at: Sequence[int], values: list[Any], affinity: str) -> list[Points]:
    metric = affinity in METRIC_AFFINITIES
    kind = DatapointKind.METRIC if metric else DatapointKind.STATE
    types = set(map(type, values))
    if types <= (_NULLABLE_NUMBERS if metric else _NULLABLE_TEXT):
        return [Points(kind, key, at, _typed(kind, values, types))]
    fits = fits_kind(values, metric=metric)
    good = _pick(kind, key, at, values, fits)
    bad = [(i, v) for i, v, ok in zip(at, values, fits, strict=True) if not ok]
    if bad:
        texts = [canonical_json(v) for _, v in bad]
        good.append(Points(kind, key, [i for i, _ in bad], texts, KIND_MISMATCH))
    return good


def _by_own_type(key: str, at: Sequence[int], values: list[Any]) -> list[Points]:
    types = set(map(type, values))
    if types <= _NUMBERS:
        return [Points(DatapointKind.METRIC, key, at, _typed(DatapointKind.METRIC, values, types))]
    if types.isdisjoint(_NUMBERS):
        return [Points(DatapointKind.STATE, key, at, _typed(DatapointKind.STATE, values, types))]
    numeric = [type(v) in _NUMBERS for v in values]
    others = [not n for n in numeric]
    return [
        *_pick(DatapointKind.METRIC, key, at, values, numeric),
        *_pick(DatapointKind.STATE, key, at, values, others),
    ]


def _pick(
    kind: DatapointKind, key: str, at: Sequence[int], values: list[Any], chosen: list[bool]
) -> list[Points]:
    rows = [i for i, take in zip(at, chosen, strict=True) if take]
    picked = [v for v, take in zip(values, chosen, strict=True) if take]
    return [Points(kind, key, rows, _typed(kind, picked, {*map(type, picked)}))] if rows else []


def _typed(kind: DatapointKind, values: list[Any], types: set[type]) -> list[Any]:
    if types <= (_NULLABLE_DOUBLES if kind is DatapointKind.METRIC else _NULLABLE_TEXT):
        return values
    if types <= _NUMBERS:
        return [*map(float, values)]
    if kind is DatapointKind.METRIC:
        return [None if v is None else float(v) for v in values]
    return [v if v is None or type(v) is str else canonical_json(v) for v in values]
