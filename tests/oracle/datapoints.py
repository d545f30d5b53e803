"""What the row changes of a device say about its keys, now and over time."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from tests.oracle.canonical import (
    canonical_json,
    datapoint_id,
    datapoint_key,
    deleted_key,
    instance,
)
from tests.oracle.instants import utc_day
from tests.oracle.records import (
    CurrentValue,
    Datapoint,
    KeyConflict,
    QuarantinedDatapoint,
    RowChange,
    TelemetrySample,
    listed_first,
)

KIND_OF_AFFINITY = {
    "INTEGER": "metric",
    "REAL": "metric",
    "NUMERIC": "metric",
    "TEXT": "state",
    "BLOB": "state",
}


DAY_US = 86_400_000_000
DAYS_BACK = {"metric": 30, "state": 365}


class Datapoints:
    """The datapoint tables and the newest value of every key."""

    def __init__(self) -> None:
        """Start with nothing observed."""
        self.metric: list[Datapoint] = []
        self.state: list[Datapoint] = []
        self.quarantined: list[QuarantinedDatapoint] = []
        self.out_of_window = 0
        self._newest: dict[tuple[str, ...], tuple[Datapoint, str]] = {}
        self._sampled: dict[tuple[str, str, str, int], Any] = {}
        self._contradictions: Counter[tuple[str, str, str, str, str]] = Counter()

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
                self._write(_changed_point(change, key, where), value, wanted=wanted)
        if change.op != "update":
            key = deleted_key(change.source_table)
            point = _changed_point(change, key, where)
            self._write(point, change.op == "delete", wanted="state")

    def sample(
        self,
        sample: TelemetrySample,
        *,
        fields: Mapping[str, Any],
        affinities: Mapping[str, str] | None,
    ) -> None:
        """Write what a row of telemetry says, field by field, unless it was said before."""
        for field, value in fields.items():
            if affinities is None or field in affinities:
                key = datapoint_key(sample.source_table, field)
                wanted = KIND_OF_AFFINITY[affinities[field]] if affinities else kind_of(value)
                if _is_in_window(sample, wanted):
                    self._write_once(sample, value, key=key, wanted=wanted)
                else:
                    self.out_of_window += 1

    def conflicts(self) -> Iterator[KeyConflict]:
        """Other values of a key at a moment that had one, with the number of their arrivals."""
        for place, arrivals in self._contradictions.items():
            yield KeyConflict("datapoint", *place, arrivals)

    def _write_once(self, sample: TelemetrySample, value: Any, *, key: str, wanted: str) -> None:
        fits = value is None or kind_of(value) == wanted
        table = f"{wanted}_datapoint" if fits else "quarantined_datapoints"
        stored = _stored(value) if fits else canonical_json(value)
        place = (table, sample.device_id, key, sample.ts)
        if place not in self._sampled:
            self._sampled[place] = stored
            self._write(_sampled_point(sample, key), value, wanted=wanted)
            return
        first, other = canonical_json(self._sampled[place]), canonical_json(stored)
        if first != other:
            name = canonical_json({"key": key, "table": table, "ts": sample.ts})
            lineage = (sample.device_id, sample.source_table)
            self._contradictions[(*lineage, name, listed_first(first), other)] += 1

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

    def _write(self, point: Datapoint, value: Any, *, wanted: str) -> None:
        if value is not None and kind_of(value) != wanted:
            point = point._replace(value=canonical_json(value))
            self.quarantined.append(QuarantinedDatapoint(*point, wanted, "kind_mismatch"))
            return
        point = point._replace(value=_stored(value))
        (self.metric if wanted == "metric" else self.state).append(point)
        if not point.late:
            self._keep_newest(point, wanted)

    def _keep_newest(self, point: Datapoint, kind: str) -> None:
        place = (point.owner_kind, point.owner_id, point.key, point.instance, point.provenance)
        known = self._newest.get(place)
        if known is None or _rank(point, kind) < _rank(*known):
            self._newest[place] = (point, kind)


def _rank(point: Datapoint, kind: str) -> tuple[int, str, int]:
    """The smallest is current: newest first, then by name of the source, metric before state."""
    return -point.ts, point.source, ("metric", "state").index(kind)


def _is_in_window(sample: TelemetrySample, kind: str) -> bool:
    oldest = sample.received_at - DAYS_BACK[kind] * DAY_US
    return oldest <= sample.ts <= sample.received_at + DAY_US


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


def _changed_point(change: RowChange, key: str, where: str) -> Datapoint:
    return _point(
        (key, where, "edge.rows"),
        owner=change.device_id,
        ts=change.received_at + change.row_index,
        rule="edge.row_batch",
        batch_id=change.batch_id,
        late=change.late,
    )


def _sampled_point(sample: TelemetrySample, key: str) -> Datapoint:
    return _point(
        (key, "", "edge.telemetry"),
        owner=sample.device_id,
        ts=sample.ts,
        rule="edge.telemetry_batch",
        batch_id=sample.batch_id,
        late=False,
    )


def _point(
    place: tuple[str, str, str], *, owner: str, ts: int, rule: str, batch_id: str, late: bool
) -> Datapoint:
    key, where, source = place
    return Datapoint(
        datapoint_id=datapoint_id(("component", owner, key, where, "observed", source), ts),
        ts=ts,
        owner_kind="component",
        owner_id=owner,
        component_id=owner,
        key=key,
        instance=where,
        value=None,
        provenance="observed",
        source=source,
        source_rule=rule,
        source_rule_version=1,
        late=late,
        revision=0,
        batch_id=batch_id,
        day=utc_day(ts),
    )
