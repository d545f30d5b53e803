"""Data files come back as they were written, in encodings that suit their columns."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ilyama_resources.delta.data_files import (
    TableColumn,
    TableContract,
    statistics,
    write_data_file,
)

DAY = date(2026, 4, 28)
CONTRACT = TableContract(
    "things",
    "Things.",
    (
        TableColumn("name", pa.string(), "a text that repeats"),
        TableColumn("body", pa.string(), "a text that does not", repeats=False),
        TableColumn("number", pa.int64(), "an integer"),
        TableColumn("moment", pa.timestamp("us", tz="UTC"), "a moment"),
        TableColumn("real", pa.float64(), "a real"),
    ),
)
ROWS: dict[str, list[Any]] = {
    "name": ["a", None, "a", "b"],
    "body": ["1", "2", "3", None],
    "number": [2**63 - 1, -(2**63), None, 0],
    "moment": [0, -62135596800000000, 253402300799999999, None],
    "real": [-0.0, 0.0, 5e-324, None],
}


def _table(**columns: Any) -> pa.Table:
    given = ROWS | columns
    arrays = [
        values if isinstance(values := given[f.name], pa.ChunkedArray) else pa.array(values, f.type)
        for f in CONTRACT.schema
    ]
    return pa.table(arrays, names=CONTRACT.schema.names)


def _written(root: Path, rows: pa.Table) -> Path:
    return root / write_data_file(root, CONTRACT, rows, day=DAY, name="file").path


def test_what_was_written_comes_back(tmp_path: Path) -> None:
    read = pq.ParquetFile(_written(tmp_path, _table())).read()

    assert repr(read.cast(CONTRACT.schema).to_pydict()) == repr(_table().to_pydict())


@pytest.mark.parametrize(
    ("column", "encoding"),
    [
        ("name", "RLE_DICTIONARY"),
        ("body", "PLAIN"),
        ("number", "DELTA_BINARY_PACKED"),
        ("moment", "DELTA_BINARY_PACKED"),
        ("real", "PLAIN"),
    ],
)
def test_each_column_has_the_encoding_that_suits_it(
    tmp_path: Path, column: str, encoding: str
) -> None:
    group = pq.ParquetFile(_written(tmp_path, _table())).metadata.row_group(0)
    chunk = group.column(CONTRACT.schema.get_field_index(column))

    assert encoding in chunk.encodings
    assert chunk.has_dictionary_page == (encoding == "RLE_DICTIONARY")


@pytest.mark.parametrize(
    ("chunks", "bounds"),
    [
        ([["b", "b"], ["b", "b"]], ("b", "b")),
        ([["a", "a"], ["c", "c"]], ("a", "c")),
        ([["b", None], [None, "c"]], ("b", "c")),
        ([["a", "b", "z"], ["b"]], ("a", "z")),
    ],
)
def test_texts_of_a_dictionary_have_their_bounds(
    chunks: list[list[str | None]], bounds: tuple[str, str]
) -> None:
    names = pa.chunked_array([pa.array(chunk).dictionary_encode() for chunk in chunks])

    told = json.loads(statistics(CONTRACT, _table(name=names)))

    assert (told["minValues"]["name"], told["maxValues"]["name"]) == bounds


@pytest.mark.parametrize("kept", [["b", "b", "b", "b"], [None, "b", "b", "b"]])
def test_texts_that_only_a_dictionary_knows_are_no_bounds(kept: list[str | None]) -> None:
    every = pa.chunked_array([pa.array(["a", *kept, "z"]).dictionary_encode()])

    told = json.loads(statistics(CONTRACT, _table(name=every.slice(1, len(kept)))))

    assert (told["minValues"]["name"], told["maxValues"]["name"]) == ("b", "b")
