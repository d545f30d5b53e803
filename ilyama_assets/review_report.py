"""Schemas that wait for a person, on the page of the rows that wait with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from dagster import MarkdownMetadataValue

from ilyama_assets.markdown import markdown_table
from ilyama_resources.postgres.governance.open_reviews import OpenSchema

MOST_SCHEMAS: Final = 20
_MOMENT: Final = "%Y-%m-%d %H:%M"


def review_table(schemas: Sequence[OpenSchema]) -> MarkdownMetadataValue:
    """Open reviews as a Markdown table, those of one schema in one line."""
    return markdown_table([schema_row(schema) for schema in schemas], otherwise="No schema waits.")


def schema_row(schema: OpenSchema) -> dict[str, Any]:
    """The reviews of one schema as a line tells them."""
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
