"""What a check report looks like: counts, a sample of offending rows, and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dagster import (
    AssetCheckResult,
    AssetCheckSeverity,
    MetadataValue,
    TableColumn,
    TableMetadataValue,
    TableRecord,
    TableSchema,
)

from ilyama_assets.markdown import shortened

SAMPLE_ROWS = 10


def report(
    *,
    asset: str,
    check: str,
    passed: bool,
    counts: Mapping[str, int],
    sample: Sequence[Mapping[str, Any]] = (),
    advice: str,
    severity: AssetCheckSeverity = AssetCheckSeverity.ERROR,
) -> AssetCheckResult:
    """A check result that a person can act on."""
    metadata: dict[str, Any] = dict(counts)
    if not passed:
        metadata["what to do"] = advice
    if sample:
        metadata["offending rows"] = table_of(sample)
    return AssetCheckResult(
        asset_key=asset,
        check_name=check,
        passed=passed,
        severity=severity,
        metadata=metadata,
        description=_sentence(counts, passed=passed),
    )


def _sentence(counts: Mapping[str, int], *, passed: bool) -> str:
    told = ", ".join(f"{name}: {count:,}" for name, count in counts.items())
    return f"{'Holds' if passed else 'Does not hold'}. {told}"


def table_of(sample: Sequence[Mapping[str, Any]]) -> TableMetadataValue:
    """Rows as a table that Dagster shows."""
    rows = [{name: _cell(value) for name, value in row.items()} for row in sample[:SAMPLE_ROWS]]
    columns = [TableColumn(name, "string") for name in rows[0]]
    return MetadataValue.table([TableRecord(row) for row in rows], TableSchema(columns))


def _cell(value: Any) -> str | int | float | bool | None:
    return value if isinstance(value, int | float | bool | None) else shortened(str(value))
