"""Bulk writes: rows go through COPY into a temporary table, then into their own."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any, Self

import psycopg2
import pyarrow as pa
from sqlalchemy import Column, Connection, MetaData, Table

from ilyama_resources.postgres.binary_rows import binary_parts

_BYTES_AT_ONCE = 256 * 1024
_NUL, SHOWN_NUL = "\0", "\N{REPLACEMENT CHARACTER}"
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", _NUL: SHOWN_NUL})


def shown(text: str) -> str:
    """A text as Postgres can hold it: without U+0000."""
    return text.replace(_NUL, SHOWN_NUL)


def copied(connection: Connection, table: Table, rows: Iterable[Sequence[Any]]) -> Table:
    """A temporary table shaped like `table` that holds the rows until the transaction ends."""
    columns = [column.name for column in table.columns]
    return _copy(connection, table, columns, _lines(rows), form="text")


def copied_arrow(connection: Connection, table: Table, rows: pa.Table) -> Table:
    """The same for columns in Arrow; it has these columns only."""
    types = [table.c[name].type for name in rows.column_names]
    with _WrittenAhead(binary_parts(rows, types)) as parts:
        return _copy(connection, table, rows.column_names, parts, form="binary")


class _WrittenAhead:
    """A file to read from, of which a thread writes the next part while Postgres takes one."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="copying")
        self._left = memoryview(b"")

    def __enter__(self) -> Self:
        self._next = self._ordered()
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.shutdown(cancel_futures=True)

    def read(self, size: int) -> bytes:
        """At most so many bytes; none at the end."""
        if not self._left:
            self._left = memoryview(self._next.result())
            self._next = self._ordered()
        taken, self._left = self._left[:size], self._left[size:]
        return bytes(taken)

    def _ordered(self) -> Future[bytes]:
        return self._writer.submit(next, self._parts, b"")


def _copy(
    connection: Connection, table: Table, names: Sequence[str], lines: Any, *, form: str
) -> Table:
    incoming = Table(
        f"incoming_{table.name}",
        MetaData(),
        *(Column(name, table.c[name].type) for name in names),
        prefixes=["TEMPORARY"],
    )
    incoming.drop(connection, checkfirst=True)
    incoming.create(connection)
    quoted = ", ".join(f'"{name}"' for name in names)
    command = f"COPY {incoming.name} ({quoted}) FROM STDIN (FORMAT {form})"
    with _invalidated_when_lost(connection) as driver, closing(driver.cursor()) as cursor:
        cursor.copy_expert(command, lines, size=_BYTES_AT_ONCE)
    return incoming


@contextmanager
def _invalidated_when_lost(connection: Connection) -> Iterator[Any]:
    """The driver's own connection; SQLAlchemy is told when it breaks, which it cannot see."""
    driver: Any = connection.connection.dbapi_connection
    try:
        yield driver
    except psycopg2.Error as error:
        if driver.closed:
            connection.invalidate(error)
        raise


def _lines(rows: Iterable[Sequence[Any]]) -> io.StringIO:
    text = io.StringIO()
    for row in rows:
        text.write("\t".join(map(_field, row)))
        text.write("\n")
    text.seek(0)
    return text


def _field(value: Any) -> str:
    if value is None:
        return "\\N"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, tuple):
        return f"{{{','.join(map(str, value))}}}"
    return str(value).translate(_ESCAPES)
