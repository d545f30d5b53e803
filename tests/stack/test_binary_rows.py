"""Arrow columns come through the binary form of COPY as they were, whatever they contain."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    Column,
    Connection,
    Date,
    DateTime,
    Double,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    Uuid,
    create_engine,
    select,
)
from sqlalchemy.types import TypeEngine

from ilyama_resources.postgres.binary_rows import ROWS_AT_ONCE
from ilyama_resources.postgres.copying import copied_arrow
from tests.platform import Platform

MOMENTS = [datetime(1, 1, 1, tzinfo=UTC), datetime(2026, 4, 28, 1, 2, 3, 4, tzinfo=UTC)]
IDS = ["00000000-0000-4000-8000-000000000001", "ffffffff-ffff-8fff-bfff-ffffffffffff"]
TEXTS = [
    "",
    "\\.",
    "\\N",
    "a\n\\.\nb",
    'a "b",\t\r\n',
    "NULL",
    "{x}",
    "é\N{SNOWMAN}\U0001f600",
    "x" * 9_000,
]
INSTANT = pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize(
    ("of", "arrow", "values"),
    [
        (Text(), pa.string(), TEXTS),
        (LargeBinary(), pa.binary(), [b"", b"\0\xff\\", b"x" * 9_000]),
        (Double(), pa.float64(), [0.1, -0.0, 5e-324, 1.7976931348623157e308, float("inf")]),
        (BigInteger(), pa.int64(), [0, -1, 2**63 - 1, -(2**63)]),
        (Integer(), pa.int64(), [0, -1, 2**31 - 1, -(2**31)]),
        (Boolean(), pa.bool_(), [True, False]),
        (Date(), pa.date32(), [date(1, 1, 1), date(2000, 1, 1), date(2026, 4, 28)]),
        (DateTime(timezone=True), INSTANT, MOMENTS),
        (Uuid(as_uuid=False), pa.string(), IDS),
        (ARRAY(Text), pa.list_(pa.string()), [TEXTS, [None, "a", None], ["only"], []]),
        (ARRAY(Double), pa.list_(pa.float64()), [[0.1, None], [2.0]]),
        (ARRAY(BigInteger), pa.list_(pa.int64()), [[2**63 - 1, None, 0]]),
        (ARRAY(DateTime(timezone=True)), pa.list_(INSTANT), [MOMENTS]),
    ],
    ids=lambda told: "" if isinstance(told, list) else type(told).__name__,
)
@pytest.mark.parametrize("times", [1, ROWS_AT_ONCE])
def test_values_and_nulls_come_back(
    records: Connection, of: TypeEngine[Any], arrow: pa.DataType, values: list[Any], times: int
) -> None:
    given = [*values, None] * (times if len(str(values)) < 500 else 1)
    rows = pa.table({"number": range(len(given)), "value": pa.array(given, arrow)})
    assert _through_postgres(records, of, rows) == given


def test_ids_of_sixteen_bytes_come_back_as_texts(records: Connection) -> None:
    ids = pa.array([[UUID(text).bytes for text in IDS], [None]], pa.list_(pa.binary(16)))
    rows = pa.table({"number": [0, 1], "value": ids})
    assert _through_postgres(records, ARRAY(Uuid(as_uuid=False)), rows) == [IDS, [None]]


def test_no_rows_are_no_rows(records: Connection) -> None:
    nothing = pa.table({"number": pa.array([], pa.int64()), "value": pa.array([], pa.string())})
    assert _through_postgres(records, Text(), nothing) == []


def test_a_part_of_a_column_is_that_part(records: Connection) -> None:
    lists = pa.array([["a"], ["b", "c"], ["d"], ["e", None]])
    rows = pa.table({"number": range(4), "value": lists}).slice(1, 2)
    assert _through_postgres(records, ARRAY(Text), rows) == [["b", "c"], ["d"]]


def _through_postgres(records: Connection, of: TypeEngine[Any], rows: pa.Table) -> list[Any]:
    table = Table("odd", MetaData(), Column("number", BigInteger), Column("value", of))
    incoming = copied_arrow(records, table, rows)
    return list(records.scalars(select(incoming.c.value).order_by(incoming.c.number)))


@pytest.fixture
def records(shared_platform: Platform) -> Any:
    """A connection of the test's own."""
    engine = create_engine(shared_platform.settings.postgres_url or "")
    with engine.connect() as connection:
        yield connection
    engine.dispose()
