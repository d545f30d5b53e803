"""Many texts, or pairs of them, in one query: as arrays, because a long list is refused."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import ARRAY, ColumnElement, Select, Text, exists, func, literal, select

Pair = tuple[str, str]


def these(pairs: Iterable[Pair]) -> Select[Any]:
    """The pairs as something that a pair of columns can be `in_`."""
    found = list(pairs)
    firsts = literal([first for first, _ in found], ARRAY(Text))
    seconds = literal([second for _, second in found], ARRAY(Text))
    rows = func.unnest(firsts, seconds).table_valued("first", "second").render_derived()
    return select(rows.c.first, rows.c.second)


def those_not_in(column: ColumnElement[str], texts: Iterable[str]) -> Select[tuple[str]]:
    """Those of the texts that a column does not have."""
    asked = func.unnest(literal([*texts], ARRAY(Text))).table_valued("text").render_derived()
    return select(asked.c.text).where(~exists().where(column == asked.c.text))
