"""Key conflicts as people read them: newest days first, arrivals summed over the drains of a day.

The list lies in Delta alone. A page reads one day after the other, of each only files that may hold
what is asked for, in the order of their devices, and ends where it is full. A file that cannot be
read is named, and the others are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import date
from hashlib import sha256
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

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
_TABLE = "key_conflicts"
_COLUMNS = ("device_id", "source_table", "kind", "key", "first", "other", "arrivals")
_AT_ONCE = 1024


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
    for day, files in groupby(reader.files(wanted), key=attrgetter("day")):
        if after is not None and day > after.day:
            continue
        begin = after if after is not None and day == after.day else None
        page = _DayPage(day, after=begin, limit=limit - len(found))
        found += page.filled(reader, files, wanted)
        if len(found) >= limit:
            break
    return FoundConflicts(found, reader.unreadable.files)


def arrivals_on(root: Path, day: date) -> FoundArrivals:
    """How often other content came under keys that were taken, on a day."""
    reader, total = _Reader(root), 0
    for file in reader.files(ConflictFilter(day=day)):
        for batch in reader.batches(file, ["arrivals"]):
            total += pc.sum(batch["arrivals"]).as_py() or 0
    unreadable = reader.unreadable.files
    return FoundArrivals(None if _TABLE in unreadable else total, unreadable)


class _File(NamedTuple):
    """A file with the devices that it may tell of; one that knows no last one tells of any."""

    day: date
    first_device: str
    last_device: str | None
    path: str


class _Reader:
    """Reads files, and notes those that it cannot read."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.unreadable = Unreadable(root)

    def files(self, wanted: ConflictFilter) -> list[_File]:
        """Those that may have such conflicts: newest days first, then by their first device."""
        bounds: Bounds = {
            name: (value, value) for name, value in wanted._asdict().items() if value is not None
        }
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


def _file(action: dict[str, Any]) -> _File:
    has_nameless = bool(action.get("null_count.device_id"))
    lowest = "" if has_nameless else action.get("min.device_id") or ""
    path = f"{_TABLE}/{action['path']}"
    return _File(action[f"partition.{PARTITION}"], lowest, action.get("max.device_id"), path)


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
        columns = (column.to_pylist() for column in rows.columns)
        for device_id, source_table, kind, key, first, other, arrivals in zip(
            *columns, strict=True
        ):
            digest = sha256(msgspec.json.encode((first, other))).hexdigest()
            place = ConflictPlace(self._day, device_id or "", source_table, kind, key, digest)
            if self._after is not None and place <= self._after:
                continue
            known = self._kept.get(place)
            before = 0 if known is None else known.arrivals
            shown = (first[:MOST_SHOWN], other[:MOST_SHOWN])
            self._kept[place] = ListedConflict(place, *shown, before + arrivals)
            if len(self._kept) > 2 * self._limit:
                near = sorted(self._kept)[: self._limit]
                self._kept = {place: self._kept[place] for place in near}


def _narrowed(rows: pa.RecordBatch, wanted: ConflictFilter) -> pa.RecordBatch:
    for name, value in wanted._asdict().items():
        if isinstance(value, str):
            rows = rows.filter(pc.equal(rows[name].cast(pa.string()), str(value)))
    return rows
