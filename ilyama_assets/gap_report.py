"""Open gaps on the page of their asset: which numbers never came, and what explains it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from dagster import MarkdownMetadataValue

from ilyama_assets.markdown import markdown_table
from ilyama_protocol.intake.sequences import SequenceKind
from ilyama_resources.postgres.gaps import ExplainedGap

MOST_SHOWN: Final = 20
_MOST_NAMED: Final = 3
_MOMENT: Final = "%Y-%m-%d %H:%M"


def gap_table(gaps: Sequence[ExplainedGap]) -> MarkdownMetadataValue:
    """Gaps as a Markdown table."""
    return markdown_table([_row(gap) for gap in gaps], otherwise="No number is missing.")


def _row(explained: ExplainedGap) -> dict[str, Any]:
    gap = explained.gap
    return {
        "device": gap.device_id,
        "journal" if gap.kind == SequenceKind.ROWS else "table": gap.name,
        "era": gap.era,
        "numbers": f"{gap.first_missing} to {gap.last_missing}",
        "missing": gap.missing,
        "since": f"{gap.opened_at:{_MOMENT}}, drain {gap.opened_in}",
        "explained by": explanation(explained),
    }


def explanation(explained: ExplainedGap) -> str:
    """The rejections that had numbers of a gap, in words."""
    if not explained.rejections:
        return "no rejection"
    told = f"{explained.rejections:,} rejected"
    if explained.discarded:
        told += f", {explained.discarded:,} of them discarded"
    return f"{told}: {' '.join(explained.rejection_ids[:_MOST_NAMED])}"
