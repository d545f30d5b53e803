"""What the row changes of a device say about its keys, now and over time."""

from collections.abc import Mapping
from typing import Any

from tests.oracle.canonical import (
    canonical_json,
    datapoint_id,
    datapoint_key,
    deleted_key,
    instance,
)
from tests.oracle.instants import utc_day
from tests.oracle.records import CurrentValue, Datapoint, QuarantinedDatapoint, RowChange

KIND_OF_AFFINITY = {
    "INTEGER": "metric",
    "REAL": "metric",
    "NUMERIC": "metric",
    "TEXT": "state",
    "BLOB": "state",
}


class Datapoints:
    """The datapoint tables and the newest value of every key."""

    def __init__(self) -> None:
        """Start with nothing observed."""
        self.metric: list[Datapoint] = []
        self.state: list[Datapoint] = []
        self.quarantined: list[QuarantinedDatapoint] = []
        self._newest: dict[tuple[str, ...], tuple[Datapoint, str]] = {}

    def observe(
        self,
        change: RowChange,
        *,
        pk: Mapping[str, Any],
        row: Mapping[str, Any] | None,
        affinities: Mapping[str, str] | None,
    ) -> None:
        """Write what a new row change says, column by column."""
        where = instance(pk)
        for column, value in (row or {}).items():
            if affinities is None or column in affinities:
                key = datapoint_key(change.source_table, column)
                wanted = KIND_OF_AFFINITY[affinities[column]] if affinities else kind_of(value)
                self._write(change, value, key=key, where=where, wanted=wanted)
        if change.op != "update":
            key = deleted_key(change.source_table)
            self._write(change, change.op == "delete", key=key, where=where, wanted="state")

    def current(self) -> list[CurrentValue]:
        """The newest value of every key and instance that is not late."""
        return [_current_value(point, kind) for point, kind in self._newest.values()]

    def served(self, max_instances: int) -> list[CurrentValue]:
        """The current values of lineages that have few enough instances to be served."""
        current = self.current()
        instances: dict[tuple[str, str], set[str]] = {}
        for value in current:
            instances.setdefault(_lineage(value), set()).add(value.instance)
        return [value for value in current if len(instances[_lineage(value)]) <= max_instances]

    def _write(self, change: RowChange, value: Any, *, key: str, where: str, wanted: str) -> None:
        if value is not None and kind_of(value) != wanted:
            point = _datapoint(change, canonical_json(value), key=key, where=where)
            self.quarantined.append(QuarantinedDatapoint(*point, wanted, "kind_mismatch"))
            return
        point = _datapoint(change, _stored(value), key=key, where=where)
        (self.metric if wanted == "metric" else self.state).append(point)
        if not point.late:
            self._keep_newest(point, wanted)

    def _keep_newest(self, point: Datapoint, kind: str) -> None:
        place = (point.owner_kind, point.owner_id, point.key, point.instance, point.provenance)
        known = self._newest.get(place)
        if known is None or point.ts > known[0].ts:
            self._newest[place] = (point, kind)


def kind_of(value: object) -> str:
    """The kind of a JSON value by its own type."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return "metric" if is_number else "state"


def _stored(value: Any) -> float | str | None:
    if value is None or isinstance(value, str):
        return value
    return float(value) if kind_of(value) == "metric" else canonical_json(value)


def _current_value(point: Datapoint, kind: str) -> CurrentValue:
    return CurrentValue(
        owner_kind=point.owner_kind,
        owner_id=point.owner_id,
        key=point.key,
        instance=point.instance,
        provenance=point.provenance,
        kind=kind,
        value_double=point.value if isinstance(point.value, float) else None,
        value_text=point.value if isinstance(point.value, str) else None,
        ts=point.ts,
        source=point.source,
        policy="latest",
    )


def _lineage(value: CurrentValue) -> tuple[str, str]:
    return value.owner_id, value.key.partition(".")[0]


def _datapoint(change: RowChange, value: float | str | None, *, key: str, where: str) -> Datapoint:
    ts = change.received_at + change.row_index
    series = ("component", change.device_id, key, where, "observed", "edge.rows")
    return Datapoint(
        datapoint_id=datapoint_id(series, ts),
        ts=ts,
        owner_kind="component",
        owner_id=change.device_id,
        component_id=change.device_id,
        key=key,
        instance=where,
        value=value,
        provenance="observed",
        source="edge.rows",
        source_rule="edge.row_batch",
        source_rule_version=1,
        late=change.late,
        revision=0,
        batch_id=change.batch_id,
        day=utc_day(ts),
    )
