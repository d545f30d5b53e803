"""Bulk writes: rows go through COPY into a temporary table, then into their own."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Any

from sqlalchemy import Column, Connection, MetaData, Table

_NUL, _SHOWN_NUL = "\0", "\N{REPLACEMENT CHARACTER}"
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", _NUL: _SHOWN_NUL})


def shown(text: str) -> str:
    """A text as Postgres can hold it: without U+0000."""
    return text.replace(_NUL, _SHOWN_NUL)


def copied(connection: Connection, table: Table, rows: Iterable[Sequence[Any]]) -> Table:
    """A temporary table shaped like `table` that holds the rows until the transaction ends."""
    name = f"incoming_{table.name}"
    incoming = Table(
        name, MetaData(), *(Column(c.name, c.type) for c in table.columns), prefixes=["TEMPORARY"]
    )
    connection.exec_driver_sql(f"DROP TABLE IF EXISTS {name}")
    incoming.create(connection)
    columns = ", ".join(f'"{column.name}"' for column in table.columns)
    with closing(connection.connection.cursor()) as cursor:
        cursor.copy_expert(f"COPY {name} ({columns}) FROM STDIN", _lines(rows))
    return incoming


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
    return str(value).translate(_ESCAPES)
