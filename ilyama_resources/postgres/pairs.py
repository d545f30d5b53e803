"""Many pairs of texts in one query: as two arrays, because a long list of tuples is refused."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import ARRAY, Select, Text, func, literal, select

Pair = tuple[str, str]


def these(pairs: Iterable[Pair]) -> Select[Any]:
    """The pairs as something that a pair of columns can be `in_`."""
    found = list(pairs)
    firsts = literal([first for first, _ in found], ARRAY(Text))
    seconds = literal([second for _, second in found], ARRAY(Text))
    rows = func.unnest(firsts, seconds).table_valued("first", "second").render_derived()
    return select(rows.c.first, rows.c.second)
