"""Rejections on the page of their asset: one line for one mistake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dagster import MarkdownMetadataValue, MetadataValue

from ilyama_resources.postgres.rejections import RejectionGroup

MOST_GROUPS: Final = 20
_HEAD: Final = (
    "| code | table | firmware | rejections | devices | first | last | states |\n"
    "|---|---|---|---:|---:|---|---|---|"
)
_MOMENT: Final = "%Y-%m-%d %H:%M"
_SPECIAL: Final = "\\|`*_[]<>"


def rejection_table(groups: Sequence[RejectionGroup]) -> MarkdownMetadataValue:
    """Groups of rejections as a Markdown table."""
    if not groups:
        return MetadataValue.md("Nothing was rejected.")
    return MetadataValue.md("\n".join([_HEAD, *map(_line, groups)]))


def _line(group: RejectionGroup) -> str:
    cells = (
        _plain(group.code),
        _plain(group.source_table) or "unknown",
        _plain(group.firmware_version),
        f"{group.rejections:,}",
        f"{group.devices:,}",
        group.first_received_at.strftime(_MOMENT),
        group.last_received_at.strftime(_MOMENT),
        ", ".join(f"{count:,} {state}" for state, count in group.states.items()),
    )
    return f"| {' | '.join(cells)} |"


def _plain(words: str) -> str:
    """A device's words, which Markdown shall not take for its own."""
    shown = "".join(c if c.isprintable() else " " for c in words)
    return "".join(f"\\{c}" if c in _SPECIAL else c for c in shown)
