"""Rejections on the page of their asset: one line for one mistake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from dagster import MarkdownMetadataValue

from ilyama_assets.markdown import markdown_table
from ilyama_resources.postgres.rejections import RejectionGroup

MOST_GROUPS: Final = 20
_MOMENT: Final = "%Y-%m-%d %H:%M"


def rejection_table(groups: Sequence[RejectionGroup]) -> MarkdownMetadataValue:
    """Groups of rejections as a Markdown table."""
    return markdown_table(rejection_rows(groups), otherwise="Nothing was rejected.")


def rejection_rows(groups: Sequence[RejectionGroup]) -> list[dict[str, Any]]:
    """Groups of rejections, one row for one mistake."""
    return [_row(group) for group in groups]


def _row(group: RejectionGroup) -> dict[str, Any]:
    return {
        "code": group.code,
        "table": group.source_table or "unknown",
        "firmware": group.firmware_version,
        "rejections": group.rejections,
        "devices": group.devices,
        "first": group.first_received_at.strftime(_MOMENT),
        "last": group.last_received_at.strftime(_MOMENT),
        "states": ", ".join(f"{count:,} {state}" for state, count in group.states.items()),
    }
