"""The integrity of a drain, judged on what was just written and before anything is visible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ilyama_assets.checks.rules import keeps_lineage_rule, keeps_owner_rule
from ilyama_assets.drains.orders import Findings
from ilyama_assets.drains.repeated_points import repeated_points
from ilyama_assets.tables import (
    BATCH_LEDGER,
    METRIC_DATAPOINT,
    QUARANTINED_DATAPOINTS,
    ROW_CHANGES,
    STATE_DATAPOINT,
    TELEMETRY_SAMPLES,
)
from ilyama_protocol.canonical import canonical_json

RULES = {"lineage_rule": keeps_lineage_rule, "owner_rule": keeps_owner_rule}
SAMPLE = 10
_KINDS = {METRIC_DATAPOINT.name: "metric", STATE_DATAPOINT.name: "state"}
_SORTS = ("rows_new", "rows_duplicate", "rows_rejected", "rows_staged")
_LINEAGE_EPOCH = ("device_id", "source_table", "journal_epoch")
_BATCH = ("device_id", "batch_id")


def split_by_rules(tables: Mapping[str, list[pa.Table]]) -> dict[str, list[pa.Table]]:
    """The tables with datapoints that break a CHECK rule moved to quarantine."""
    result = {name: list(parts) for name, parts in tables.items()}
    for name, kind in _KINDS.items():
        for index, part in enumerate(tables.get(name, ())):
            result[name][index], bad = _split(part, kind)
            if bad:
                held = [*result.get(QUARANTINED_DATAPOINTS.name, ()), *bad]
                plain = [rows.cast(QUARANTINED_DATAPOINTS.schema) for rows in held]
                result[QUARANTINED_DATAPOINTS.name] = [pa.concat_tables(plain)]
    return {name: parts for name, parts in result.items() if any(p.num_rows for p in parts)}


def _split(points: pa.Table, kind: str) -> tuple[pa.Table, list[pa.Table]]:
    bad = []
    for reason, keeps in RULES.items():
        kept = keeps(points)
        breaches = points.num_rows - (pc.sum(kept).as_py() or 0)
        if breaches:
            bad.append(_quarantined(points.filter(pc.invert(kept)), kind, reason))
            points = points.filter(kept)
    return points, bad


def _quarantined(points: pa.Table, kind: str, reason: str) -> pa.Table:
    columns: dict[str, Any] = {name: points[name] for name in points.column_names if name != "unit"}
    columns["value"] = pa.array([canonical_json(v) for v in points["value"].to_pylist()])
    columns["kind"] = pa.array([kind] * points.num_rows)
    columns["reason"] = pa.array([reason] * points.num_rows)
    return pa.table({name: columns[name] for name in QUARANTINED_DATAPOINTS.schema.names})


class TaskIntegrity:
    """Collects what the checks find in one task's tables."""

    def __init__(self) -> None:
        self.findings = Findings()

    def inspect(self, tables: Mapping[str, list[pa.Table]]) -> None:
        """Check everything that is about to be written."""
        for part in tables.get(BATCH_LEDGER.name, ()):
            self._balance(part)
        for part in tables.get(ROW_CHANGES.name, ()):
            keys = _repeated(part, _LINEAGE_EPOCH, "commit_seq", "source_pk_hash")
            self.findings.repeated_keys += keys
        for part in tables.get(TELEMETRY_SAMPLES.name, ()):
            self.findings.repeated_samples += _repeated(part, _BATCH, "row_index")
        for name in _KINDS:
            for part in tables.get(name, ()):
                self._rules(part)
            if parts := tables.get(name, []):
                self._points(name, pa.concat_tables(parts))
        for part in tables.get(QUARANTINED_DATAPOINTS.name, ()):
            counts = pc.value_counts(part["reason"])
            held = self.findings.quarantined
            for entry in counts.to_pylist():
                held[entry["values"]] = held.get(entry["values"], 0) + entry["counts"]

    def _balance(self, ledger: pa.Table) -> None:
        self.findings.messages += ledger.num_rows
        accounted = sum(_longs(ledger, name) for name in _SORTS)
        wrong = np.flatnonzero(accounted != _longs(ledger, "rows_received"))
        for i in wrong[:SAMPLE].tolist():
            self.findings.unbalanced.append(_place(ledger, i))

    def _points(self, name: str, points: pa.Table) -> None:
        if repeated := repeated_points(points):
            self.findings.repeated_points[name] = repeated

    def _rules(self, points: pa.Table) -> None:
        for name, keeps in RULES.items():
            breaches = points.num_rows - (pc.sum(keeps(points)).as_py() or 0)
            if breaches:
                known = self.findings.rule_breaches.get(name, 0)
                self.findings.rule_breaches[name] = known + breaches


def _repeated(rows: pa.Table, group: Sequence[str], number: str, *others: str) -> list[str]:
    """Some keys that occur more than once.

    Rows that only climb within their group are unique at a glance; others are counted.
    """
    names = [*group, number, *others]
    keys = rows.select(names)
    if _only_climbs(keys, group, number):
        return []
    counted = keys.group_by(names).aggregate([([], "count_all")])
    repeated = counted.filter(pc.greater(counted["count_all"], 1)).slice(0, SAMPLE)
    return [canonical_json(key) for key in repeated.to_pylist()]


def _only_climbs(keys: pa.Table, group: Sequence[str], number: str) -> bool:
    same = np.ones(max(keys.num_rows - 1, 0), np.bool_)
    for name in group:
        codes = keys[name].combine_chunks()
        if not pa.types.is_dictionary(codes.type):
            codes = codes.dictionary_encode()
        indices = codes.indices.to_numpy(zero_copy_only=False)
        same &= indices[1:] == indices[:-1]
    groups = len(same) - int(same.sum()) + 1
    distinct = keys.select(group).group_by(list(group)).aggregate([]).num_rows
    climbs = np.diff(_longs(keys, number)) > 0
    return groups == distinct and bool(np.all(climbs | ~same))


def _longs(table: pa.Table, name: str) -> Any:
    return table[name].to_numpy()


def _place(ledger: pa.Table, row: int) -> str:
    segment, position = ledger["segment_id"][row].as_py(), ledger["position"][row].as_py()
    return f"segment {segment} position {position}"
