"""Key conflicts on the page of their asset: what stays, and what came under the same key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from dagster import MarkdownMetadataValue

from ilyama_assets.markdown import markdown_table, shortened
from ilyama_resources.delta.key_conflicts import ListedConflict

MOST_CONFLICTS: Final = 20
_LONGEST_CELL: Final = 200


def conflict_table(conflicts: Sequence[ListedConflict], *, otherwise: str) -> MarkdownMetadataValue:
    """Conflicts as a Markdown table; long contents are cut."""
    return markdown_table([conflict_row(conflict) for conflict in conflicts], otherwise=otherwise)


def conflict_row(conflict: ListedConflict) -> dict[str, Any]:
    """A conflict in a few words; it may have come more often than was counted."""
    place = conflict.place
    return {
        "day": place.day.isoformat(),
        "device": place.device_id or "unknown",
        "table": place.source_table,
        "kind": place.kind,
        "key": shortened(place.key, most=_LONGEST_CELL),
        "first": shortened(conflict.first, most=_LONGEST_CELL),
        "other": shortened(conflict.other, most=_LONGEST_CELL),
        "arrivals, at least": conflict.arrivals,
    }
