"""Datapoints as Arrow tables: those of rows and those of telemetry, by kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ilyama_assets.drains.columns import (
    Longs,
    constant,
    indexes,
    joined,
    repeated,
    repeated_longs,
    table_of,
)
from ilyama_assets.drains.datapoint_ids import datapoint_ids
from ilyama_assets.tables import METRIC_DATAPOINT, QUARANTINED_DATAPOINTS, STATE_DATAPOINT
from ilyama_protocol.intake import datapoints
from ilyama_protocol.intake.datapoints import Points
from ilyama_protocol.intake.field_series import INSTANCE
from ilyama_protocol.intake.known_keys import KnownKeys
from ilyama_protocol.intake.outcomes import AcceptedRows, AcceptedSamples, Arrival
from ilyama_resources.delta.data_files import TableContract

POINT_TABLES = (METRIC_DATAPOINT, STATE_DATAPOINT, QUARANTINED_DATAPOINTS)


class _Chunk(NamedTuple):
    """The datapoints of one column of a batch."""

    arrival: Arrival
    batch_id: str
    points: Points


class _Told(NamedTuple):
    """What rows and telemetry tell of their datapoints each in its own way."""

    source: str
    source_rule: str
    ts: Longs
    series: npt.NDArray[np.uint64]
    instance: pa.DictionaryArray
    late: npt.NDArray[np.bool_]


def encoded_points(
    accepted: Sequence[AcceptedRows], samples: Sequence[AcceptedSamples], *, drain_id: int
) -> dict[str, pa.Table]:
    """The datapoints of rows and telemetry, by the table of their kind or quarantine, if any."""
    keys = Keys(accepted)
    of_rows = [(rows, points) for rows in accepted for points in rows.points]
    of_samples = [(rows, points) for rows in samples for points in rows.points]
    tables = {}
    for contract in POINT_TABLES:
        rows = [chunk for chunk in of_rows if chunk[1].table == contract.name]
        sampled = [chunk for chunk in of_samples if chunk[1].table == contract.name]
        told = [(_chunks(rows), _rows(rows, keys))] if rows else []
        told += [(_chunks(sampled), _samples(sampled))] if sampled else []
        parts = [_table(contract, *of_source, drain_id=drain_id) for of_source in told]
        if parts:
            tables[contract.name] = pa.concat_tables(parts)
    return tables


class Keys:
    """The primary keys of several devices, one after another."""

    def __init__(self, accepted: Sequence[AcceptedRows]) -> None:
        self._devices = [*{id(rows.keys): rows.keys for rows in accepted}.values()]
        sizes = [len(known.texts) for known in self._devices]
        begins = accumulate(sizes, initial=0)
        self._begins = dict(zip(map(id, self._devices), begins, strict=False))

    def places(self, accepted: AcceptedRows, rows: Sequence[int]) -> Longs:
        """Where the primary keys of rows stand among those of all devices."""
        return accepted.key_numbers[indexes(rows)] + self._begins[id(accepted.keys)]

    def texts(
        self, places: Longs, told: Callable[[KnownKeys], Sequence[str]]
    ) -> pa.DictionaryArray:
        """What is told of the primary keys at places; each text is there once."""
        every = [*chain.from_iterable(map(told, self._devices))]
        known = pa.array(every, pa.string()).dictionary_encode()
        codes = known.indices.to_numpy()[places]
        return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), known.dictionary)


def late_flags(chunks: Iterable[tuple[AcceptedRows, Sequence[int]]]) -> npt.NDArray[np.bool_]:
    """Which of the given rows came late."""
    parts = (
        np.array([i in accepted.late for i in rows], np.bool_)
        if accepted.late
        else np.zeros(len(rows), np.bool_)
        for accepted, rows in chunks
    )
    return joined(parts, np.bool_)


def _chunks(found: Sequence[tuple[AcceptedRows | AcceptedSamples, Points]]) -> list[_Chunk]:
    return [_Chunk(rows.arrival, rows.batch.batch_id, points) for rows, points in found]


def _rows(chunks: Sequence[tuple[AcceptedRows, Points]], keys: Keys) -> _Told:
    counts = _counts(points for _, points in chunks)
    base = repeated_longs([rows.arrival.received_at for rows, _ in chunks], counts)
    places = joined(keys.places(rows, points.rows) for rows, points in chunks)
    return _Told(
        datapoints.SOURCE,
        datapoints.SOURCE_RULE,
        base + joined(indexes(points.rows) for _, points in chunks),
        joined((_series(*chunk) for chunk in chunks), np.uint64),
        keys.texts(places, lambda known: known.instances),
        late_flags((rows, points.rows) for rows, points in chunks),
    )


def _samples(chunks: Sequence[tuple[AcceptedSamples, Points]]) -> _Told:
    counts = _counts(points for _, points in chunks)
    ts = joined(rows.moments[indexes(points.rows)] for rows, points in chunks)
    series = np.array([rows.series.of(points.key) for rows, points in chunks], np.uint64)
    return _Told(
        datapoints.TELEMETRY_SOURCE,
        datapoints.TELEMETRY_SOURCE_RULE,
        ts,
        np.repeat(series, counts),
        constant(INSTANCE, len(ts)),
        np.zeros(len(ts), np.bool_),
    )


def _table(
    contract: TableContract, chunks: Sequence[_Chunk], told: _Told, *, drain_id: int
) -> pa.Table:
    points = [chunk.points for chunk in chunks]
    counts, size = _counts(points), len(told.ts)
    owner = repeated([chunk.arrival.device_id for chunk in chunks], counts)
    columns: dict[str, Any] = {
        "datapoint_id": datapoint_ids(told.ts, told.series),
        "ts": told.ts,
        "owner_kind": constant(datapoints.OWNER_KIND, size),
        "owner_id": owner,
        "component_id": owner,
        "key": repeated([p.key for p in points], counts),
        "instance": told.instance,
        "value": list(chain.from_iterable(p.values for p in points)),
        "provenance": constant(datapoints.PROVENANCE, size),
        "source": constant(told.source, size),
        "source_rule": constant(told.source_rule, size),
        "source_rule_version": np.full(size, datapoints.SOURCE_RULE_VERSION, np.int64),
        "late": told.late,
        "revision": np.zeros(size, np.int64),
        "kind": repeated([p.kind.value for p in points], counts),
        "reason": repeated([p.quarantine_reason for p in points], counts),
        "segment_id": repeated([chunk.arrival.message.segment_id for chunk in chunks], counts),
        "batch_id": repeated([chunk.batch_id for chunk in chunks], counts),
    }
    for name in ("correlation_id", "caused_by_event_id"):
        texts = [chunk.arrival.message.user_properties.get(name) for chunk in chunks]
        columns[name] = repeated(texts, counts)
    return table_of(contract, columns, told.ts, drain_id=drain_id)


def _counts(points: Iterable[Points]) -> Longs:
    return np.array([len(p.rows) for p in points], np.int64)


def _series(accepted: AcceptedRows, points: Points) -> npt.NDArray[np.uint64]:
    bits = np.frombuffer(accepted.keys.series(points.key), np.uint64)
    return bits[accepted.key_numbers[indexes(points.rows)]]
