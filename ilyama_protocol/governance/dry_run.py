"""A dry run: what would become of staged rows if their schema were approved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ilyama_protocol.fingerprint import METRIC_AFFINITIES, SchemaColumn
from ilyama_protocol.governance.bindings import (
    MIRRORED,
    SILENT,
    Actions,
    keeps_paused,
    key_under,
)

_NUMBERS = frozenset({int, float})
Row = Mapping[str, Any] | None


class DryRun(msgspec.Struct):
    """What would become of rows; a delete has no content and always fits."""

    rows: int = 0
    would_materialize: int = 0
    would_stay_staged: int = 0
    datapoints: int = 0
    values_quarantined: int = 0


def dry_run(
    rows: Iterable[Row], columns: Iterable[SchemaColumn] | None, actions: Actions
) -> DryRun:
    """Count what approving these actions would make of rows."""
    known = {column.name: column for column in columns or ()}
    waits = keeps_paused(actions, known.values())
    found = DryRun()
    for row in rows:
        found.rows += 1
        if waits or not _is_whole(row or {}, known, is_delete=row is None):
            found.would_stay_staged += 1
        else:
            found.would_materialize += 1
            _count_values(found, row or {}, known, actions, typed=columns is not None)
    return found


def touched_keys(source_table: str, names: Iterable[str], actions: Actions) -> list[str]:
    """The datapoint keys that the columns would feed."""
    keys = (key_under(actions.get(name, MIRRORED), source_table, name) for name in names)
    return sorted(key for key in keys if key is not None)


def fits(value: Any, column: SchemaColumn) -> bool:
    """Whether a value is of its column's kind; null fits both."""
    is_metric = column.decl_type_affinity in METRIC_AFFINITIES
    return value is None or (type(value) in _NUMBERS) == is_metric


def _is_whole(
    row: Mapping[str, Any], columns: Mapping[str, SchemaColumn], *, is_delete: bool
) -> bool:
    """Whether no column without which a row is nothing lacks its value."""
    if is_delete:
        return True
    return all(
        fits(row.get(name), column) and (row.get(name) is not None or not column.not_null)
        for name, column in columns.items()
        if column.not_null or column.pk_ordinal
    )


def _count_values(
    found: DryRun,
    row: Mapping[str, Any],
    columns: Mapping[str, SchemaColumn],
    actions: Actions,
    *,
    typed: bool,
) -> None:
    for name, value in row.items():
        if actions.get(name, MIRRORED).verb in SILENT or (typed and name not in columns):
            continue
        if typed and not fits(value, columns[name]):
            found.values_quarantined += 1
        else:
            found.datapoints += 1
