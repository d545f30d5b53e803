"""A dry run: what would become of staged rows if their schema were approved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any, NamedTuple

import msgspec

from ilyama_protocol.fingerprint import METRIC_AFFINITIES, SchemaColumn
from ilyama_protocol.governance.bindings import (
    DEFERRED,
    MIRRORED,
    SILENT,
    Actions,
    keeps_paused,
    key_under,
    kind_of,
)

_NUMBERS = frozenset({int, float})
_TOLD_BY_A_DATAPOINT = ("insert", "delete")
"""What becomes of a row by these, the datapoints of its table tell as well."""


class StagedRow(NamedTuple):
    """A row that is set aside; one of telemetry has neither operation nor key.

    It is `typed` when its device had announced the columns by the time it came.
    """

    content: Mapping[str, Any]
    op: str | None = None
    pk: Mapping[str, Any] = {}
    typed: bool = True


class DryRun(msgspec.Struct):
    """What would become of rows."""

    rows: int = 0
    would_materialize: int = 0
    would_stay_staged: int = 0
    datapoints: int = 0
    values_quarantined: int = 0


def dry_run(
    rows: Iterable[StagedRow], columns: Iterable[SchemaColumn] | None, actions: Actions
) -> DryRun:
    """Count what approving these actions would make of rows; without columns none is typed."""
    known = None if columns is None else {column.name: column for column in columns}
    waits = keeps_paused(actions, (known or {}).values())
    found = DryRun()
    for row in rows:
        typed_by = known if row.typed else None
        found.rows += 1
        if waits or not _is_whole(row, typed_by or {}, actions):
            found.would_stay_staged += 1
        else:
            found.would_materialize += 1
            found.datapoints += row.op in _TOLD_BY_A_DATAPOINT
            _count_values(found, row.content, typed_by, actions)
    return found


def touched_keys(source_table: str, names: Iterable[str], actions: Actions) -> list[str]:
    """The datapoint keys that the columns would feed."""
    keys = (key_under(actions.get(name, MIRRORED), source_table, name) for name in names)
    return sorted(key for key in keys if key is not None)


class SeenRows:
    """What was seen of rows that passed: their operations, and what values alone tell of kinds."""

    def __init__(self, columns: Iterable[SchemaColumn] | None, actions: Actions) -> None:
        self._announced = columns is not None
        self._actions = actions
        self.ops: set[str | None] = set()
        self.kinds: set[str] = set()

    def passing(self, rows: Iterable[StagedRow]) -> Iterator[StagedRow]:
        """The rows, one after another."""
        for row in rows:
            self.ops.add(row.op)
            if not (self._announced and row.typed):
                self.kinds |= _kinds_of_values(row, self._actions)
            yield row


def touched_assets(
    seen: SeenRows, columns: Iterable[SchemaColumn] | None, actions: Actions
) -> list[str]:
    """The assets that rows would feed; without any that were seen, those that such rows could."""
    known = None if columns is None else tuple(columns)
    if keeps_paused(actions, known or ()):
        return []
    ops = seen.ops or {None, "update"}
    kinds = _published_kinds(seen.kinds, known, actions)
    if not ops.isdisjoint(_TOLD_BY_A_DATAPOINT):
        kinds |= {"state"}
    sent_as_rows = ops != {None}
    touched = {
        "row_changes": sent_as_rows,
        "telemetry_samples": None in ops,
        "metric_datapoint": "metric" in kinds,
        "state_datapoint": "state" in kinds,
        "current_value": bool(kinds),
        "device_tables": sent_as_rows,
    }
    return [asset for asset, is_touched in touched.items() if is_touched]


def _published_kinds(
    seen: Set[str], columns: Iterable[SchemaColumn] | None, actions: Actions
) -> set[str]:
    """The kinds of datapoints that columns give; of rows that came before them, by their values."""
    if columns is not None:
        told = {kind_of(c) for c in columns if actions.get(c.name, MIRRORED).verb not in SILENT}
        return told | seen
    if all(action.verb in SILENT for action in actions.values()):
        return set()
    return {*seen} or {"metric", "state"}


def _kinds_of_values(row: StagedRow, actions: Actions) -> set[str]:
    return {
        "metric" if type(value) in _NUMBERS else "state"
        for name, value in row.content.items()
        if value is not None and actions.get(name, DEFERRED).verb not in SILENT
    }


def fits(value: Any, column: SchemaColumn) -> bool:
    """Whether a value is of its column's kind; null fits both."""
    is_metric = column.decl_type_affinity in METRIC_AFFINITIES
    return value is None or (type(value) in _NUMBERS) == is_metric


def _is_whole(row: StagedRow, columns: Mapping[str, SchemaColumn], actions: Actions) -> bool:
    """Whether its key, and what must not be null, have no value that their columns cannot hold.

    Of columns that are not shown, none has to.
    """
    if row.op is None:
        return True
    shown = [c for c in columns.values() if actions.get(c.name, MIRRORED).verb not in SILENT]
    keys = {column.name: column for column in shown if column.pk_ordinal}
    required = {column.name: column for column in shown if column.pk_ordinal or column.not_null}
    parts = ((row.content, required), (row.pk, keys))
    return all(fits(part.get(name), kept[name]) for part, kept in parts for name in kept)


def _count_values(
    found: DryRun,
    row: Mapping[str, Any],
    columns: Mapping[str, SchemaColumn] | None,
    actions: Actions,
) -> None:
    for name, value in row.items():
        if actions.get(name, DEFERRED).verb in SILENT:
            continue
        if columns is None or (name in columns and fits(value, columns[name])):
            found.datapoints += 1
        else:
            found.values_quarantined += name in columns
