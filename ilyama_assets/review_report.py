"""Schemas that wait for a person, on the page of the rows that wait with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from dagster import AssetCheckResult, AssetCheckSeverity, MarkdownMetadataValue, asset_check

from ilyama_assets.automation import now_and_then
from ilyama_assets.checks.reports import report
from ilyama_assets.markdown import markdown_table
from ilyama_assets.tables import STAGED_ROWS
from ilyama_resources.postgres.open_reviews import OpenSchema
from ilyama_resources.postgres.resource import Records

MOST_SCHEMAS: Final = 20
NOBODY_WAITS: Final = "no_schema_waits_for_a_person"
_MOMENT: Final = "%Y-%m-%d %H:%M"


def review_table(schemas: Sequence[OpenSchema]) -> MarkdownMetadataValue:
    """Open reviews as a Markdown table, those of one schema in one line."""
    return markdown_table([_row(schema) for schema in schemas], otherwise="No schema waits.")


def _row(schema: OpenSchema) -> dict[str, Any]:
    return {
        "review": schema.first_review,
        "table": schema.source_table,
        "project": schema.project_id or "-",
        "class": schema.schema_class,
        "devices": schema.devices,
        "staged rows": schema.staged_rows,
        "since": schema.since.strftime(_MOMENT),
        "schema": schema.schema_hash[:12],
    }


@asset_check(
    asset=STAGED_ROWS.name,
    name=NOBODY_WAITS,
    automation_condition=now_and_then(),
    description="No schema waits for a review, so no lineage is paused for one.",
)
def no_schema_waits_for_a_person(records: Records) -> AssetCheckResult:
    """Look for open reviews."""
    with records.gateway.transaction() as tx:
        schemas = tx.open_reviews.schemas(limit=MOST_SCHEMAS)
        counts = tx.reviews.counts()
        waiting = tx.review_queue.waiting()
    return report(
        asset=STAGED_ROWS.name,
        check=NOBODY_WAITS,
        passed=not schemas,
        counts={f"reviews {state}": count for state, count in sorted(counts.items())}
        | {"schemas without room for a review": waiting},
        sample=[_row(schema) for schema in schemas],
        advice=(
            "`ilyama review show N` tells what changed, who sends it and what would come of it; "
            "`ilyama review approve N` lets the rows go on. Until then they are staged, not lost."
        ),
        severity=AssetCheckSeverity.WARN,
    )
