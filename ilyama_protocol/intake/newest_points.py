"""The newest datapoint of every key and primary key that a device has sent in one drain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any, TypeAlias

from ilyama_protocol.intake.datapoints import DatapointKind, Points
from ilyama_protocol.intake.known_keys import KnownKeys
from ilyama_protocol.intake.outcomes import AcceptedRows, CurrentValue, CurrentValues

_Point: TypeAlias = tuple[int, DatapointKind, Any]
"""Moment, kind and value."""


class NewestPoints:
    """Follows the accepted rows of one device.

    Live ones come in arrival order, in which its clock only rises: the last is the newest. What is
    decided later may come in any order, and moments are compared.
    """

    def __init__(self, keys: KnownKeys, *, in_order: bool) -> None:
        self._keys = keys
        self._in_order = in_order
        self._tables: dict[str, str] = {}
        self._points: dict[str, dict[int, _Point]] = {}

    def advance(self, accepted: AcceptedRows) -> None:
        """Take in accepted rows; what came late never becomes current."""
        places: dict[int, dict[int, int]] = {}
        taken: set[str] = set()
        for points in accepted.points:
            if points.quarantine_reason is not None:
                continue
            # Most columns of a batch have the very same rows.
            found = places.get(id(points.rows))
            if found is None:
                found = places[id(points.rows)] = _newest_places(accepted, points.rows)
            if found:
                self._tables[points.key] = accepted.batch.source_table
                self._take(points, _told(accepted, points, found), again=points.key in taken)
                taken.add(points.key)

    def values(self) -> CurrentValues:
        """The current values that follow."""
        return {key: self._values(key, points) for key, points in self._points.items()}

    def _take(self, points: Points, told: Iterator[tuple[int, _Point]], *, again: bool) -> None:
        standing = self._points.setdefault(points.key, {})
        if again or not self._in_order:
            # Numbers and texts of one column come apart, and either may be the newer.
            told = ((i, new) for i, new in told if i not in standing or standing[i][0] < new[0])
        standing.update(told)

    def _values(self, key: str, points: dict[int, _Point]) -> dict[str, CurrentValue]:
        numbers = [*points]
        instances = [*map(self._keys.instances.__getitem__, numbers)]
        series = map(self._keys.series(key).__getitem__, numbers)
        moments, kinds, contents = zip(*points.values(), strict=True)
        told = [*map(CurrentValue, kinds, contents, moments, series, repeat(self._tables[key]))]
        values = dict(zip(instances, told, strict=True))
        if len(values) < len(told):
            # Two spellings of a primary key are one instance.
            in_order = sorted(zip(instances, told, strict=True), key=lambda pair: pair[1].ts)
            return dict(in_order)
        return values


def _newest_places(accepted: AcceptedRows, rows: Sequence[int]) -> dict[int, int]:
    """The place of each primary key's last row among the given ones, late ones left out."""
    numbers = accepted.key_numbers.tolist()
    if len(rows) < len(numbers):
        numbers = [numbers[row] for row in rows]
    newest = zip(numbers, range(len(rows)), strict=True)
    if not accepted.late:
        return dict(newest)
    return {number: place for number, place in newest if rows[place] not in accepted.late}


def _told(
    accepted: AcceptedRows, points: Points, places: dict[int, int]
) -> Iterator[tuple[int, _Point]]:
    """The datapoints at places, each with the number of its primary key."""
    received_at, rows = accepted.arrival.received_at, points.rows
    moments = [received_at + rows[place] for place in places.values()]
    values = map(points.values.__getitem__, places.values())
    return zip(places, zip(moments, repeat(points.kind), values), strict=True)
