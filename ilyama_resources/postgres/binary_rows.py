"""Arrow columns in the binary form of COPY: nothing is escaped, and nothing has to be parsed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    Date,
    DateTime,
    Double,
    Integer,
    LargeBinary,
    Text,
    Uuid,
)
from sqlalchemy.types import TypeEngine

BEGIN = b"PGCOPY\n\xff\r\n\0" + bytes(8)
"""The signature, no flags, and no extension of the header."""
END = b"\xff\xff"

ROWS_AT_ONCE = 4_000
_DAYS_TO_2000 = 10_957
_MICROSECONDS_TO_2000 = _DAYS_TO_2000 * 86_400 * 1_000_000
_NOTHING = pa.scalar(b"", pa.large_binary())
_NULL = -1
_COUNT, _LENGTH = ">i2", ">i4"
_OF_ARRAYS = np.dtype([(name, ">i4") for name in ("dimensions", "nulls", "oid", "size", "first")])
_OIDS: Mapping[type[TypeEngine[Any]], int] = {
    BigInteger: 20,
    Text: 25,
    Double: 701,
    DateTime: 1184,
    Uuid: 2950,
}
"""Postgres's own numbers of the types that arrays are made of."""

_Binaries: TypeAlias = pa.LargeBinaryArray


def binary_parts(rows: pa.Table, types: Iterable[TypeEngine[Any]]) -> Iterator[bytes]:
    """All that COPY reads, in parts; types are those of the columns that take it."""
    wanted = list(types)
    batches = (batch for batch in rows.to_batches(ROWS_AT_ONCE) if batch.num_rows)
    yield from chain([BEGIN], (_rows(batch, wanted) for batch in batches), [END])


def _rows(batch: pa.RecordBatch, types: list[TypeEngine[Any]]) -> bytes:
    count = _fixed(np.full(batch.num_rows, len(types), _COUNT))
    fields = (_fields(*told) for told in zip(batch.columns, types, strict=True))
    joined = _joined(count, *fields)
    return bytes(joined.buffers()[2].slice(0, joined.total_values_length))


def _fields(column: pa.Array, of: TypeEngine[Any]) -> _Binaries:
    """Every value with its length before it; a null is a length alone."""
    contents = _arrays(column, of) if isinstance(of, ARRAY) else _CONTENTS[type(of)](column)
    lengths = pc.binary_length(contents)
    if column.null_count:
        is_there = column.is_valid()
        lengths = pc.if_else(is_there, lengths, pa.scalar(_NULL, lengths.type))
        contents = pc.if_else(is_there, contents, _NOTHING)
    return _joined(_fixed(lengths.to_numpy().astype(_LENGTH)), contents)


def _arrays(column: pa.ListArray, of: ARRAY[Any]) -> _Binaries:
    """Lists without a null among them; what follows one another in Arrow is one text already."""
    flat, sizes = column.flatten(), pc.fill_null(column.value_lengths(), 0).to_numpy()
    values = _fields(flat, of.item_type)
    bounds = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
    offsets = np.frombuffer(values.buffers()[1], np.int64, len(values) + 1)[bounds]
    body = _binaries(offsets, values.buffers()[2])
    head = np.empty(len(sizes), _OF_ARRAYS)
    head["dimensions"], head["first"], head["oid"] = 1, 1, _OIDS[type(of.item_type)]
    head["nulls"], head["size"] = flat.null_count > 0, sizes
    return _joined(_fixed(head), body)


def _texts(column: pa.Array) -> _Binaries:
    return column.cast(pa.large_binary())


def _uuids(column: pa.Array) -> _Binaries:
    """From their sixteen bytes, or from texts as people write them."""
    if pa.types.is_string(column.type):
        digits = pc.replace_substring(column.drop_null(), "-", "")
        told = np.frombuffer(bytes.fromhex("".join(digits.to_pylist())), "V16")
        found = np.zeros(len(column), "V16")
        found[column.is_valid().to_numpy(zero_copy_only=False)] = told
        return _fixed(found)
    return column.cast(pa.binary()).cast(pa.large_binary())


def _numbers(as_stored: str, *, since: int = 0) -> Callable[[pa.Array], _Binaries]:
    def contents(column: pa.Array) -> _Binaries:
        whole = column.cast(pa.int64()) if as_stored != ">f8" else column.cast(pa.float64())
        numbers = pc.fill_null(whole, 0).to_numpy() if column.null_count else whole.to_numpy()
        return _fixed((numbers - since if since else numbers).astype(as_stored))

    return contents


def _moments(column: pa.Array) -> _Binaries:
    return _numbers(">i8", since=_MICROSECONDS_TO_2000)(column.cast(pa.timestamp("us", "UTC")))


def _days(column: pa.Array) -> _Binaries:
    return _numbers(">i4", since=_DAYS_TO_2000)(column.cast(pa.int32()))


_CONTENTS: Mapping[type[TypeEngine[Any]], Callable[[pa.Array], _Binaries]] = {
    Text: _texts,
    LargeBinary: _texts,
    Uuid: _uuids,
    Double: _numbers(">f8"),
    BigInteger: _numbers(">i8"),
    Integer: _numbers(">i4"),
    Boolean: _numbers("i1"),
    DateTime: _moments,
    Date: _days,
}


def _joined(*columns: _Binaries) -> _Binaries:
    return pc.binary_join_element_wise(*columns, _NOTHING)


def _fixed(numbers: npt.NDArray[Any]) -> _Binaries:
    """Values that all have one length."""
    offsets = np.arange(len(numbers) + 1, dtype=np.int64) * numbers.dtype.itemsize
    return _binaries(offsets, pa.py_buffer(numbers.tobytes()))


def _binaries(offsets: npt.NDArray[np.int64], data: pa.Buffer) -> _Binaries:
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(offsets) - 1, [None, pa.py_buffer(offsets.tobytes()), data]
    )
