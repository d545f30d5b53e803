"""Row changes as typed datapoints: one per bound column that a row has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from hashlib import sha256
from operator import itemgetter
from typing import Any

import msgspec

from ilyama_protocol.canonical import canonical_json
from ilyama_protocol.identifiers import key_of
from ilyama_protocol.intake.state import BoundSchema
from ilyama_protocol.messages import RowBatch

SOURCE = "edge.rows"
SOURCE_RULE = "edge.row_batch"
SOURCE_RULE_VERSION = 1
OWNER_KIND = "component"
PROVENANCE = "observed"
KIND_MISMATCH = "kind_mismatch"

METRIC_AFFINITIES = frozenset({"INTEGER", "REAL", "NUMERIC"})
_NUMBERS = frozenset({int, float})
_NULLABLE_NUMBERS = _NUMBERS | {type(None)}
_NULLABLE_TEXT = frozenset({str, type(None)})


class DatapointKind(StrEnum):
    """The table a datapoint belongs to."""

    METRIC = "metric"
    STATE = "state"


class Points(msgspec.Struct):
    """The datapoints that one column of a batch gives: parallel lists, one entry per row."""

    kind: DatapointKind
    key: str
    rows: list[int]
    values: list[Any]
    quarantine_reason: str | None = None


class Series:
    """The 62 bits that stand for a series in a datapoint id, remembered per device."""

    def __init__(self, device_id: str) -> None:
        self._owner = canonical_json(device_id)
        self._bits: dict[str, dict[str, int]] = {}

    def bits(self, key: str, instances: Iterable[str]) -> list[int]:
        """The series bits of a key at each instance."""
        known = self._bits.setdefault(key, {})
        head = f'["{OWNER_KIND}",{self._owner},{canonical_json(key)},'
        tail = f',"{PROVENANCE}","{SOURCE}"]'
        found = []
        for instance in instances:
            bits = known.get(instance)
            if bits is None:
                text = f"{head}{canonical_json(instance)}{tail}"
                bits = int.from_bytes(sha256(text.encode()).digest()[:8]) >> 2
                known[instance] = bits
            found.append(bits)
        return found


def affinities_of(schema: BoundSchema) -> dict[str, str]:
    """The affinity of each column that a schema names."""
    return {column.name: column.decl_type_affinity for column in schema.columns}


def datapoints_of(
    batch: RowBatch, rows: Sequence[int], affinities: Mapping[str, str] | None
) -> list[Points]:
    """The datapoints of the given rows, by column; `affinities` is None while unknown."""
    points = _existence(batch, rows)
    for column, (at, values) in _columns(batch, rows).items():
        key = key_of(batch.source_table, column)
        if affinities is None:
            points += _by_own_type(key, at, values)
        elif column in affinities:
            points += _by_affinity(key, at, values, affinities[column])
    return points


def _existence(batch: RowBatch, rows: Sequence[int]) -> list[Points]:
    key = key_of(batch.source_table, None)
    told = [i for i in rows if batch.op[i] != "update"]
    values = ["true" if batch.op[i] == "delete" else "false" for i in told]
    return [Points(DatapointKind.STATE, key, told, values)] if told else []


def _columns(batch: RowBatch, rows: Sequence[int]) -> dict[str, tuple[list[int], Sequence[Any]]]:
    """Each column's row indexes and values."""
    at = [i for i in rows if batch.row[i] is not None]
    contents: list[dict[str, Any]] = [batch.row[i] for i in at]  # type: ignore[misc]
    names = contents[0].keys() if contents else {}.keys()
    if len(names) > 1 and all(content.keys() == names for content in contents):
        by_column = zip(*map(itemgetter(*names), contents), strict=True)
        return {name: (at, values) for name, values in zip(names, by_column, strict=True)}
    columns: dict[str, tuple[list[int], list[Any]]] = {}
    for i, content in zip(at, contents, strict=True):
        for name, value in content.items():
            indexes, values = columns.setdefault(name, ([], []))
            indexes.append(i)
            values.append(value)
    return dict(columns)


def _by_affinity(key: str, at: list[int], values: Sequence[Any], affinity: str) -> list[Points]:
    metric = affinity in METRIC_AFFINITIES
    kind = DatapointKind.METRIC if metric else DatapointKind.STATE
    types = set(map(type, values))
    if types <= (_NULLABLE_NUMBERS if metric else _NULLABLE_TEXT):
        return [Points(kind, key, at, _typed(kind, values))]
    fits = [v is None or (type(v) in _NUMBERS) == metric for v in values]
    good = _pick(kind, key, at, values, fits)
    bad = [(i, v) for i, v, ok in zip(at, values, fits, strict=True) if not ok]
    if bad:
        texts = [canonical_json(v) for _, v in bad]
        good.append(Points(kind, key, [i for i, _ in bad], texts, KIND_MISMATCH))
    return good


def _by_own_type(key: str, at: list[int], values: Sequence[Any]) -> list[Points]:
    numeric = [type(v) in _NUMBERS for v in values]
    others = [not n for n in numeric]
    return [
        *_pick(DatapointKind.METRIC, key, at, values, numeric),
        *_pick(DatapointKind.STATE, key, at, values, others),
    ]


def _pick(
    kind: DatapointKind, key: str, at: list[int], values: Sequence[Any], chosen: list[bool]
) -> list[Points]:
    if all(chosen):
        return [Points(kind, key, at, _typed(kind, values))]
    rows = [i for i, take in zip(at, chosen, strict=True) if take]
    picked = [v for v, take in zip(values, chosen, strict=True) if take]
    return [Points(kind, key, rows, _typed(kind, picked))] if rows else []


def _typed(kind: DatapointKind, values: Sequence[Any]) -> list[Any]:
    if kind is DatapointKind.METRIC:
        return [None if v is None else float(v) for v in values]
    return [v if v is None or type(v) is str else canonical_json(v) for v in values]
