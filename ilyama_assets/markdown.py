"""Tables in the metadata of assets, in which the words of devices are no markup."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dagster import MarkdownMetadataValue, MetadataValue

LONGEST_CELL: Final = 500
"""Of a text so many characters are shown; devices may send half a mebibyte of them."""
_SPECIAL: Final = "\\|`*_[]<>#~!&"
_LINKING: Final = re.compile(r"((?:://|www\.|@)+)", re.IGNORECASE)
"""What makes a link of the words around it, escaped or not; only code is left alone."""


def markdown_table(rows: Sequence[Mapping[str, Any]], *, otherwise: str) -> MarkdownMetadataValue:
    """Rows as a table; numbers stand to the right. Without any, a sentence."""
    if not rows:
        return MetadataValue.md(otherwise)
    rules = ("---:" if isinstance(value, int) else "---" for value in rows[0].values())
    lines = [_line(rows[0]), _line(rules), *(_line(map(_cell, row.values())) for row in rows)]
    return MetadataValue.md("\n".join(lines))


def _line(cells: Any) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else plain(shortened(str(value)))


def shortened(words: str, *, most: int = LONGEST_CELL) -> str:
    """Words that are not longer than anybody reads."""
    return words if len(words) <= most else f"{words[:most]}…"


def plain(words: str) -> str:
    """Words in which nothing is markup, and nothing becomes a link."""
    shown = "".join(c if c.isprintable() else " " for c in words)
    between_and_linking = enumerate(_LINKING.split(shown))
    return "".join(f"`{part}`" if n % 2 else _escaped(part) for n, part in between_and_linking)


def _escaped(words: str) -> str:
    return "".join(f"\\{c}" if c in _SPECIAL else c for c in words)
