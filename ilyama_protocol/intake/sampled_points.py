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
from ilyama_protocol.intake.conflicts import Conflict, point_conflict
from ilyama_protocol.intake.datapoints import DatapointKind, Points
from ilyama_protocol.intake.history import PointKey, StoredPoint
from ilyama_protocol.limits import Limits
from ilyama_protocol.moments import MICROSECONDS_PER_DAY

Moments = npt.NDArray[np.int64]
DAYS_AHEAD = 1
"""A clock may be ahead of the platform's by so much."""


class Window(NamedTuple):
    """The moments of which datapoints are kept, by kind, for what is received at one moment."""

    first: Mapping[DatapointKind, int]
    last: int

    @classmethod
    def at(cls, received_at: int, limits: Limits) -> Window:
        """The window of a message."""
        days = {
            DatapointKind.METRIC: limits.metric_days,
            DatapointKind.STATE: limits.state_days,
        }
        first = {kind: received_at - days[kind] * MICROSECONDS_PER_DAY for kind in days}
        return cls(first, received_at + DAYS_AHEAD * MICROSECONDS_PER_DAY)

    def holds(self, first: int, last: int) -> bool:
        """Whether all moments from one to another are within it, for every kind."""
        return max(self.first.values()) <= first and last <= self.last

    def within(self, points: Points, moments: Moments) -> Points:
        """The points whose moments are within it."""
        ts = moments[_indexes(points.rows)]
        inside = (ts >= self.first[points.kind]) & (ts <= self.last)
        return points if inside.all() else _chosen(points, np.flatnonzero(inside).tolist())


class PointsMemory:
    """The datapoints that this drain has accepted for one lineage.

    Batches of later moments are only noted; they are indexed when an earlier moment comes.
    """

    def __init__(self, stored: Mapping[PointKey, StoredPoint]) -> None:
        self._stored = stored
        self._values: dict[PointKey, Any] = {}
        self._unindexed: list[tuple[list[Points], Moments]] = []

    def note(self, points: list[Points], moments: Moments) -> None:
        """Remember accepted datapoints."""
        self._unindexed.append((points, moments))

    def new(
        self, source_table: str, points: Sequence[Points], moments: Moments
    ) -> tuple[list[Points], list[Conflict]]:
        """Those of the datapoints that say something new, and those that contradict."""
        self._index()
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

    def _index(self) -> None:
        for points, moments in self._unindexed:
            for column in points:
                self._values.update(_keyed(column, moments))
        self._unindexed.clear()


def is_rising(moments: Moments) -> bool:
    """Whether every moment is later than the one before."""
    return bool((moments[1:] > moments[:-1]).all())


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
