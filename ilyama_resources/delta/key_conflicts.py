"""Key conflicts as people read them: newest days first, arrivals summed over the drains of a day.

The list lies in Delta alone. A page reads one day after the other, of each only files that may hold
what is asked for, in the order of their devices, and ends where it is full. A file that cannot be
read is named, and the others are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import date, timedelta
from hashlib import sha256
from itertools import chain, groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from ilyama_protocol.intake.conflicts import ConflictKind
from ilyama_resources.delta.data_files import PARTITION
from ilyama_resources.delta.unreadable import Unreadable
from ilyama_resources.delta.warehouse import Bounds, within

MOST_SHOWN = 2_000
"""Of a content so many characters are shown; a row may be half a mebibyte long."""
RECENT_DAYS: Final = 7
"""Conflicts of so many days are told to whoever looks at the platform as a whole."""
MOST_FILES: Final = 64
"""So many files are read for the newest conflicts."""
_TABLE = "key_conflicts"
_COLUMNS = ("device_id", "source_table", "kind", "key", "first", "other", "arrivals")
_AT_ONCE = 128
"""Each of so many rows may be a mebibyte long."""


class ConflictFilter(NamedTuple):
    """Which conflicts are asked for; what is None does not narrow."""

    device_id: str | None = None
    source_table: str | None = None
    kind: ConflictKind | None = None
    day: date | None = None


class ConflictPlace(NamedTuple):
    """Which conflict it is, and where a page ended; the digest is that of both contents."""

    day: date
    device_id: str
    source_table: str
    kind: str
    key: str
    digest: str


class ListedConflict(NamedTuple):
    """Another content under a key that was taken, and how often it came on a day."""

    place: ConflictPlace
    first: str
    other: str
    arrivals: int

    def again(self, before: ListedConflict) -> ListedConflict:
        """It with the arrivals that were known before."""
        return self._replace(arrivals=before.arrivals + self.arrivals)

    def told(self) -> dict[str, Any]:
        """It as one mapping."""
        return self.place._asdict() | {
            "first": self.first,
            "other": self.other,
            "arrivals": self.arrivals,
        }


class FoundConflicts(NamedTuple):
    """Conflicts, and the files below the warehouse that could not be read."""

    conflicts: list[ListedConflict]
    unreadable: list[str]


class FoundArrivals(NamedTuple):
    """How often other content came, and the files below the warehouse that could not be read.

    Nobody knows how often when the table as a whole cannot be read.
    """

    arrivals: int | None
    unreadable: list[str]


def conflicts_page(
    root: Path, wanted: ConflictFilter, *, after: ConflictPlace | None, limit: int
) -> FoundConflicts:
    """The next conflicts, newest day first, then by device, table, kind and key."""
    reader, found = _Reader(root), list[ListedConflict]()
    for day, files in groupby(reader.files(_bounds(wanted)), key=attrgetter("day")):
        if after is not None and day > after.day:
            continue
        begin = after if after is not None and day == after.day else None
        page = _DayPage(day, after=begin, limit=limit - len(found))
        found += page.filled(reader, files, wanted)
        if len(found) >= limit:
            break
    return FoundConflicts(found, reader.unreadable.files)


def newest_conflicts(root: Path, *, limit: int) -> FoundConflicts:
    """Some of the conflicts that came last, those of the newest drains first.

    However many files the table has, few are read: each conflict came at least as often as told.
    """
    reader, found = _Reader(root), dict[ConflictPlace, ListedConflict]()
    files = sorted(reader.files({}), key=attrgetter("day", "last_drain"), reverse=True)
    for conflict in chain.from_iterable(map(reader.conflicts, files[:MOST_FILES])):
        known = found.get(conflict.place)
        found[conflict.place] = conflict.again(known) if known else conflict
        if len(found) >= limit:
            break
    return FoundConflicts([*found.values()], reader.unreadable.files)


def recent_arrivals(root: Path, *, today: date) -> FoundArrivals:
    """How often other content came under keys that were taken, in the days up to today."""
    reader, total = _Reader(root), 0
    for file in reader.files({PARTITION: (first_recent_day(today), today)}):
        for batch in reader.batches(file, ["arrivals"]):
            total += pc.sum(batch["arrivals"]).as_py() or 0
    unreadable = reader.unreadable.files
    return FoundArrivals(None if _TABLE in unreadable else total, unreadable)


def first_recent_day(today: date) -> date:
    """The day since when conflicts are recent."""
    return today - timedelta(days=RECENT_DAYS - 1)


class _File(NamedTuple):
    """A file with the devices that it may tell of; one that knows no last one tells of any."""

    day: date
    first_device: str
    last_device: str | None
    path: str
    last_drain: int


class _Reader:
    """Reads files, and notes those that it cannot read."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.unreadable = Unreadable(root)

    def files(self, bounds: Bounds) -> list[_File]:
        """Those that may have such conflicts: newest days first, then by their first device."""
        table, found = self._root / _TABLE, list[_File]()
        with self.unreadable.noted(table), suppress(TableNotFoundError):
            actions = pa.table(DeltaTable(table).get_add_actions(flatten=True))
            found += map(_file, within(actions, bounds).to_pylist())
        return sorted(sorted(found, key=attrgetter("first_device")), key=_newest_first)

    def batches(self, file: _File, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Some columns of a file, as far as it can be read."""
        path = self._root / file.path
        with self.unreadable.noted(path), pq.ParquetFile(path) as opened:
            for batch in opened.iter_batches(_AT_ONCE, columns=columns):
                yield batch.select(columns)

    def conflicts(self, file: _File) -> Iterator[ListedConflict]:
        """What a file lists, as far as it can be read."""
        for batch in self.batches(file, list(_COLUMNS)):
            yield from _listed(file.day, batch)


def _file(action: dict[str, Any]) -> _File:
    has_nameless = bool(action.get("null_count.device_id"))
    lowest = "" if has_nameless else action.get("min.device_id") or ""
    path = f"{_TABLE}/{action['path']}"
    day, highest = action[f"partition.{PARTITION}"], action.get("max.device_id")
    return _File(day, lowest, highest, path, action.get("max.drain_id") or 0)


def _bounds(wanted: ConflictFilter) -> Bounds:
    asked = wanted._asdict().items()
    return {name: (value, value) for name, value in asked if value is not None}


def _newest_first(file: _File) -> int:
    return -file.day.toordinal()


class _DayPage:
    """The first conflicts of a day behind a place."""

    def __init__(self, day: date, *, after: ConflictPlace | None, limit: int) -> None:
        self._day = day
        self._after = after
        self._limit = limit
        self._kept: dict[ConflictPlace, ListedConflict] = {}

    def filled(
        self, reader: _Reader, files: Iterable[_File], wanted: ConflictFilter
    ) -> list[ListedConflict]:
        """The conflicts, from files in the order of their first devices."""
        for file in files:
            if self._ends_before(file.first_device):
                break
            if self._may_go_on_in(file):
                for batch in reader.batches(file, list(_COLUMNS)):
                    self._add(_narrowed(batch, wanted))
        return [self._kept[place] for place in sorted(self._kept)[: self._limit]]

    def _ends_before(self, device_id: str) -> bool:
        """Whether all that fits on the page is of devices before this one."""
        if len(self._kept) < self._limit:
            return False
        return sorted(self._kept)[self._limit - 1].device_id < device_id

    def _may_go_on_in(self, file: _File) -> bool:
        after, last = self._after, file.last_device
        return after is None or last is None or last >= after.device_id

    def _add(self, rows: pa.RecordBatch) -> None:
        """Take up conflicts; others are dropped as soon as enough come before them."""
        for conflict in _listed(self._day, rows):
            place = conflict.place
            if self._after is not None and place <= self._after:
                continue
            known = self._kept.get(place)
            self._kept[place] = conflict.again(known) if known else conflict
            if len(self._kept) > 2 * self._limit:
                near = sorted(self._kept)[: self._limit]
                self._kept = {place: self._kept[place] for place in near}


def _listed(day: date, rows: pa.RecordBatch) -> Iterator[ListedConflict]:
    columns = (column.to_pylist() for column in rows.columns)
    for device_id, source_table, kind, key, first, other, arrivals in zip(*columns, strict=True):
        digest = sha256(msgspec.json.encode((first, other))).hexdigest()
        place = ConflictPlace(day, device_id or "", source_table, kind, key, digest)
        yield ListedConflict(place, first[:MOST_SHOWN], other[:MOST_SHOWN], arrivals)


def _narrowed(rows: pa.RecordBatch, wanted: ConflictFilter) -> pa.RecordBatch:
    for name, value in wanted._asdict().items():
        if isinstance(value, str):
            rows = rows.filter(pc.equal(rows[name].cast(pa.string()), str(value)))
    return rows
