"""The statistics of data files are right: Spark skips by them and loses no row."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from operator import eq, ge, le
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ilyama_resources.delta.data_files import DataFile, TableColumn, TableContract, write_data_file
from ilyama_resources.delta.warehouse import Warehouse

DAY = date(2026, 4, 28)
ODD = TableContract(
    "odd",
    "Values that are easily got wrong.",
    (
        TableColumn("text", pa.string(), "a text"),
        TableColumn("word", pa.string(), "a text that repeats"),
        TableColumn("long", pa.int64(), "an integer"),
        TableColumn("double", pa.float64(), "a real"),
        TableColumn("moment", pa.timestamp("us", tz="UTC"), "a moment"),
        TableColumn("flag", pa.bool_(), "a flag"),
        TableColumn("nothing", pa.string(), "never known"),
        TableColumn("untold", pa.string(), "too long to be told of", skipping=False),
        TableColumn("day", pa.date32(), "the partition"),
    ),
)
TOLD = ("text", "word", "long", "double", "moment", "flag", "nothing")
ORDERED = ("text", "word", "long", "double", "moment")
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {"=": eq, "<=": le, ">=": ge}


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


FILES: list[dict[str, list[Any]]] = [
    {
        "text": ["", " ", "a" * 80 + "z"],
        "long": [-(2**63), -1, 0],
        "double": [-1.7976931348623157e308, -5e-324, -1e-300],
        "moment": [_moment("0001-01-01T00:00:00"), _moment("1582-10-15T00:00:00.000001"), None],
        "flag": [True, False, None],
    },
    {
        "text": ["a\0b", "quote \" and \\ and '", "two\nlines\u2028three"],
        "long": [1, 2, None],
        "double": [0.0, 5e-324, None],
        "moment": [
            _moment("1969-12-31T23:59:59.999999"),
            _moment("1970-01-01T00:00:00"),
            _moment("1970-01-01T00:00:00.000001"),
        ],
        "flag": [True, True, True],
    },
    {
        "text": ["e\u0301", "é", "\uffee"],
        "long": [2**53 + 1, 2**53, 2**53 - 1],
        "double": [0.1, 1 / 3, 2 / 3],
        "moment": [
            _moment("2026-04-28T09:00:00.000999"),
            _moment("2026-04-28T09:00:00.001"),
            _moment("2026-04-28T09:00:00.001001"),
        ],
        "flag": [None, None, None],
    },
    {
        "text": ["\U0001f600", "\U0010fffd", None],
        "long": [2**63 - 1, 2**63 - 2, None],
        "double": [1.7976931348623157e308, 1e22, None],
        "moment": [
            _moment("2026-04-28T09:00:00.001001"),
            _moment("9999-12-31T23:59:59.999999"),
            None,
        ],
        "flag": [False, None, None],
    },
]
ROWS_PER_FILE = 3
VALUES = {name: [value for file in FILES for value in file[name]] for name in FILES[0]}
VALUES["word"] = [str(number) for number in range(len(FILES)) for _ in range(ROWS_PER_FILE)]


def _rows(columns: dict[str, list[Any]], *, word: str) -> pa.Table:
    """Rows of a file; the column that repeats comes as a dictionary, as drains write it."""
    size = len(columns["text"])
    given = columns | {"nothing": [None] * size, "untold": ["x" * 100_000] * size}
    words = pa.array([word] * size).dictionary_encode()
    arrays = [
        words if field.name == "word" else pa.array(given[field.name], field.type)
        for field in ODD.file_schema
    ]
    return pa.table(arrays, names=ODD.file_schema.names)


class _Written:
    """A table of the given files, one commit old."""

    def __init__(self, root: Path, files: Sequence[dict[str, list[Any]]] = FILES) -> None:
        warehouse = Warehouse(root, "tests")
        warehouse.ensure(ODD)
        self.location = warehouse.location(ODD.name)
        self.files = [
            write_data_file(
                self.location, ODD, _rows(file, word=str(number)), day=DAY, name=f"file-{number}"
            )
            for number, file in enumerate(files)
        ]
        warehouse.add(ODD.name, 1, self.files)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> _Written:
    return _Written(tmp_path_factory.mktemp("warehouse"))


@pytest.fixture
def odd(session: SparkSession, written: _Written) -> DataFrame:
    return session.read.format("delta").load(str(written.location))


def test_statistics_are_what_spark_computes(written: _Written, odd: DataFrame) -> None:
    computed = (
        odd.groupBy(F.col("_metadata.file_name").alias("file"))
        .agg(
            F.count("*").alias("records"),
            *(F.count_if(F.col(name).isNull()).alias(f"nulls_{name}") for name in TOLD),
            *(F.min(name).alias(f"min_{name}") for name in ORDERED),
            *(F.max(name).alias(f"max_{name}") for name in ORDERED),
        )
        .toArrow()
        .to_pylist()
    )

    assert len(computed) == len(FILES)
    by_name = {Path(file.path).name: file for file in written.files}
    for row in computed:
        told = _told(by_name[row.pop("file")])
        assert told == {name: value for name, value in row.items() if value is not None}


def _told(file: DataFile) -> dict[str, Any]:
    """A file's statistics, by the names of Spark's aggregates."""
    found = json.loads(file.statistics)
    told = {"records": found["numRecords"]}
    told |= {f"nulls_{name}": count for name, count in found["nullCount"].items()}
    for word, sort in (("min", "minValues"), ("max", "maxValues")):
        for name, value in found[sort].items():
            exact = datetime.fromisoformat(value) if name == "moment" else value
            told[f"{word}_{name}"] = exact
    return told


@pytest.mark.parametrize("column", ORDERED)
def test_no_row_is_lost_by_skipping(odd: DataFrame, column: str) -> None:
    held = [value for value in VALUES[column] if value is not None]
    asked = _asked(column)
    counts = [
        _count(odd, COMPARISONS[sign](F.col(column), F.lit(value)), number)
        for number, (sign, value) in enumerate(asked)
    ]
    counts.append(_count(odd, F.col(column).isNull(), len(asked)))

    found = _collected(counts)

    for number, (sign, value) in enumerate(asked):
        expected = sum(COMPARISONS[sign](_order(other), _order(value)) for other in held)
        assert found[number] == expected, f"{column} {sign} {value!r}"
    assert found[len(asked)] == VALUES[column].count(None)


def _asked(column: str) -> list[tuple[str, Any]]:
    """Every value, and everything up to the lowest and from the highest value of each file."""
    values = VALUES[column]
    asked = [("=", value) for value in {repr(v): v for v in values if v is not None}.values()]
    for start in range(0, len(values), ROWS_PER_FILE):
        known = [value for value in values[start : start + ROWS_PER_FILE] if value is not None]
        asked += [("<=", min(known, key=_order)), (">=", max(known, key=_order))]
    return asked


def test_zero_is_found_whatever_its_sign(session: SparkSession, tmp_path: Path) -> None:
    nothing: dict[str, list[Any]] = {name: [None, None] for name in FILES[0]}
    files = [nothing | {"double": [-1.0, -0.0]}, nothing | {"double": [0.0, 1.0]}]
    location = _Written(tmp_path, files).location
    zeros = session.read.format("delta").load(str(location))

    found = [zeros.where(F.col("double") == F.lit(zero)).count() for zero in (0.0, -0.0)]

    assert found == [2, 2]


def test_rows_are_found_by_the_columns_without_bounds(odd: DataFrame) -> None:
    conditions = [F.col("flag"), ~F.col("flag"), F.col("flag").isNull()]
    conditions += [F.col("nothing").isNull(), F.col("untold") == "x" * 100_000]

    found = _collected([_count(odd, condition, n) for n, condition in enumerate(conditions)])

    flags = VALUES["flag"]
    assert [*found.values()] == [flags.count(True), flags.count(False), flags.count(None), 12, 12]


@pytest.mark.parametrize(
    ("column", "value", "number"),
    [("text", "é", 2), ("word", "1", 1), ("long", -1, 0), ("double", 1e22, 3)],
)
def test_spark_opens_no_file_that_the_statistics_rule_out(
    session: SparkSession, tmp_path: Path, column: str, value: Any, number: int
) -> None:
    written = _Written(tmp_path)
    for other, file in enumerate(written.files):
        if other != number:
            (written.location / file.path).unlink()

    table = session.read.format("delta").load(str(written.location))

    assert table.where(F.col(column) == value).count() == 1 + 2 * (column == "word")


def _order(value: Any) -> Any:
    """Spark orders texts by their UTF-8 bytes."""
    return value.encode() if isinstance(value, str) else value


def _count(table: DataFrame, condition: Any, number: int) -> DataFrame:
    return table.where(condition).select(F.lit(number).alias("number"), F.count("*").alias("rows"))


def _collected(counts: list[DataFrame]) -> dict[int, int]:
    """The counts by number; asked for in portions that one plan can hold."""
    found: dict[int, int] = {}
    for start in range(0, len(counts), 10):
        first, *others = counts[start : start + 10]
        for other in others:
            first = first.union(other)
        found |= {row.number: row.rows for row in first.collect()}
    return dict(sorted(found.items()))
