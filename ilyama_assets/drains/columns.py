"""Arrow columns of what was decided: what many rows share is written once and repeated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ilyama_protocol.moments import MICROSECONDS_PER_DAY
from ilyama_protocol.texts import CutTexts
from ilyama_resources.delta.data_files import TableContract

Longs = npt.NDArray[np.int64]
Columns = Mapping[str, Any]


def table_of(contract: TableContract, columns: Columns, moments: Any, *, drain_id: int) -> pa.Table:
    """The columns in the contract's order and types; what is not given is null."""
    size = len(moments)
    given = dict(columns) | {
        "drain_id": np.full(size, drain_id, np.int64),
        "day": (np.asarray(moments, np.int64) // MICROSECONDS_PER_DAY).astype(np.int32),
    }
    arrays = [
        _array(given[field.name], field.type) if field.name in given else pa.nulls(size, field.type)
        for field in contract.schema
    ]
    return pa.table(arrays, names=contract.schema.names)


def repeated(values: Sequence[str | None], counts: Longs) -> pa.DictionaryArray:
    """Each text as often as its count says."""
    encoded = pa.array(values, pa.string()).dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    if encoded.null_count:
        spread = pa.array(np.repeat(codes, counts), mask=np.repeat(np.isnan(codes), counts))
        return pa.DictionaryArray.from_arrays(spread.cast(pa.int32()), encoded.dictionary)
    return pa.DictionaryArray.from_arrays(
        pa.array(np.repeat(codes, counts), pa.int32()), encoded.dictionary
    )


def constant(word: str, size: int) -> pa.DictionaryArray:
    """One text so many times."""
    return repeated([word], np.array([size], np.int64))


def repeated_longs(values: Sequence[int], counts: Longs) -> Longs:
    """Each number as often as its count says."""
    return np.repeat(np.array(values, np.int64), counts)


def indexes(rows: Sequence[int]) -> Longs:
    """Row indexes as an array."""
    return np.arange(rows.start, rows.stop) if isinstance(rows, range) else np.array(rows, np.int64)


def joined(parts: Iterable[npt.NDArray[Any]], kind: Any = np.int64) -> npt.NDArray[Any]:
    """Arrays, one after another."""
    return np.concatenate([np.empty(0, kind), *parts])


def joined_texts(parts: Iterable[Sequence[str | None]]) -> pa.ChunkedArray:
    """Texts, one sequence after another; those cut out of a buffer stay together."""
    chunks: list[pa.Array] = []
    others: list[str | None] = []
    for texts in parts:
        if isinstance(texts, CutTexts):
            chunks += [pa.array(others, pa.string()), texts.column()]
            others = []
        else:
            others += texts
    return pa.chunked_array([*chunks, pa.array(others, pa.string())], pa.string())


def _array(values: Any, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(kind)
    return pa.array(values, kind)
