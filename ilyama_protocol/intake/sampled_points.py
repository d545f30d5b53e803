"""Datapoints of telemetry: the devices' own clocks date them, so moments may be odd and come twice.

What lies out of the window gives no datapoint. A key has one value at a moment: the same value
again changes nothing, another one is a conflict, and the first stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ilyama_protocol.canonical import canonical_json
from ilyama_protocol.governance.bindings import Binding
from ilyama_protocol.intake.conflicts import Conflict, point_conflict
from ilyama_protocol.intake.datapoints import DatapointKind, Points, sampled_points
from ilyama_protocol.intake.history import PointKey, StoredPoint
from ilyama_protocol.intake.state import NO_TS
from ilyama_protocol.limits import Limits
from ilyama_protocol.messages import TelemetryBatch
from ilyama_protocol.moments import MICROSECONDS_PER_DAY

Moments = npt.NDArray[np.int64]
DAYS_AHEAD = 1
"""A clock may be ahead of the platform's by so much."""


class Window(NamedTuple):
    """The moments of which datapoints are kept, by kind, for what comes at one moment."""

    first: Mapping[DatapointKind, int]
    last: int

    @classmethod
    def at(cls, came_at: int, limits: Limits) -> Window:
        """The window of a message that came at a moment."""
        days = {
            DatapointKind.METRIC: limits.metric_days,
            DatapointKind.STATE: limits.state_days,
        }
        first = {kind: came_at - days[kind] * MICROSECONDS_PER_DAY for kind in days}
        return cls(first, came_at + DAYS_AHEAD * MICROSECONDS_PER_DAY)

    def holds(self, first: int, last: int) -> bool:
        """Whether all moments from one to another are within it, for every kind."""
        return max(self.first.values()) <= first and last <= self.last

    def within(self, points: Points, moments: Moments) -> Points:
        """The points whose moments are within it."""
        ts = moments[_indexes(points.rows)]
        inside = (ts >= self.first[points.kind]) & (ts <= self.last)
        return points if inside.all() else _chosen(points, np.flatnonzero(inside).tolist())


class PointsMemory:
    """The datapoints that this drain has accepted for one device.

    Batches of later moments are only noted; they are indexed when an earlier moment comes.
    """

    def __init__(self, stored: Mapping[PointKey, StoredPoint]) -> None:
        self._stored = stored
        self._values: dict[PointKey, Any] = {}
        self._unindexed: dict[str, list[tuple[Points, Moments]]] = {}
        self._sources: dict[str, set[str]] = {}

    def note(self, source_table: str, points: Sequence[Points], moments: Moments) -> None:
        """Remember accepted datapoints of a table."""
        for column in points:
            self._unindexed.setdefault(column.key, []).append((column, moments))
            self._sources.setdefault(column.key, set()).add(source_table)

    def shares(self, source_table: str, points: Sequence[Points]) -> bool:
        """Whether other tables gave datapoints under keys of these."""
        return any(self._sources.get(column.key, set()) - {source_table} for column in points)

    def new(
        self, source_table: str, points: Sequence[Points], moments: Moments
    ) -> tuple[list[Points], list[Conflict]]:
        """Those of the datapoints that say something new, and those that contradict."""
        for column in points:
            self._index(column.key)
        told: dict[PointKey, Any] = {}
        kept: list[Points] = []
        conflicts: list[Conflict] = []
        for column in points:
            places = []
            for place, (key, value) in enumerate(_keyed(column, moments)):
                known, first = self._first(key, told)
                if not known:
                    told[key] = value
                    places.append(place)
                elif canonical_json(first) != canonical_json(value):
                    conflicts.append(point_conflict(source_table, key, first=first, other=value))
            kept.append(_chosen(column, places))
        return [column for column in kept if column.values], conflicts

    def _first(self, key: PointKey, told: Mapping[PointKey, Any]) -> tuple[bool, Any]:
        for values in (told, self._values):
            if key in values:
                return True, values[key]
        stored = self._stored.get(key)
        return stored is not None, stored and stored.value

    def _index(self, key: str) -> None:
        for points, moments in self._unindexed.pop(key, ()):
            self._values.update(_keyed(points, moments))


class NewPoints(NamedTuple):
    """What a telemetry batch adds, what it contradicts, and how many values are out of window."""

    points: list[Points]
    conflicts: list[Conflict]
    out_of_window: int


class SampledPoints:
    """Makes the datapoints of one device's telemetry, batch after batch in order of arrival."""

    def __init__(self, limits: Limits, stored: Mapping[PointKey, StoredPoint]) -> None:
        self._limits = limits
        self._memory = PointsMemory(stored)

    def new(
        self,
        batch: TelemetryBatch,
        *,
        came_at: int,
        affinities: Mapping[str, str] | None,
        binding: Binding,
        latest: int,
    ) -> NewPoints:
        """The datapoints of a batch; those of moments after the latest are new at a glance.

        The latest is that of the batch's own table, and of earlier drains that of all tables which
        are mapped to its keys.
        """
        points = sampled_points(batch, affinities, binding)
        moments = np.frombuffer(batch.ts_us, np.int64)
        window, sent = Window.at(came_at, self._limits), _count(points)
        if not window.holds(batch.cursor_start_us, batch.cursor_end_us):
            inside = [window.within(column, moments) for column in points]
            points = [column for column in inside if column.values]
        out_of_window, conflicts = sent - _count(points), list[Conflict]()
        table, memory = batch.source_table, self._memory
        is_later = batch.cursor_start_us > latest and _is_rising(moments)
        if not is_later or memory.shares(table, points):
            points, conflicts = memory.new(table, points, moments)
        return NewPoints(points, conflicts, out_of_window)

    def note(self, batch: TelemetryBatch, points: list[Points]) -> None:
        """Remember datapoints that were accepted."""
        moments = np.frombuffer(batch.ts_us, np.int64)
        self._memory.note(batch.source_table, points, moments)

    def latest(self, batch: TelemetryBatch, came_at: int) -> int:
        """The latest moment of a batch that is not beyond the window."""
        last = Window.at(came_at, self._limits).last
        if batch.cursor_end_us <= last:
            return batch.cursor_end_us
        return max((ts for ts in batch.ts_us if ts <= last), default=NO_TS)

    def earliest(self, came_at: int) -> int:
        """The earliest moment of which any datapoint is kept."""
        return min(Window.at(came_at, self._limits).first.values())


def _is_rising(moments: Moments) -> bool:
    return bool((moments[1:] > moments[:-1]).all())


def _count(points: list[Points]) -> int:
    return sum(len(column.values) for column in points)


def _keyed(points: Points, moments: Moments) -> list[tuple[PointKey, Any]]:
    ts = moments[_indexes(points.rows)].tolist()
    keys = [PointKey(points.table, points.key, at) for at in ts]
    return [*zip(keys, points.values, strict=True)]


def _chosen(points: Points, places: list[int]) -> Points:
    if len(places) == len(points.values):
        return points
    rows = [points.rows[place] for place in places]
    values = [points.values[place] for place in places]
    return Points(points.kind, points.key, rows, values, points.quarantine_reason)


def _indexes(rows: Sequence[int]) -> Moments:
    return np.fromiter(rows, np.int64, len(rows))
