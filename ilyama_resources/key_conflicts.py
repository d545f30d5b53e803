"""Key conflicts as people read them: newest days first, arrivals summed over the drains of a day.

The list lies in Delta alone. A page reads one day after the other, only files that may hold what
is asked for, and holds no more conflicts than fit on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from hashlib import sha256
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from ilyama_protocol.intake.conflicts import ConflictKind
from ilyama_resources.data_files import PARTITION
from ilyama_resources.delta import Bounds, within

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


def conflicts_page(
    root: Path, wanted: ConflictFilter, *, after: ConflictPlace | None, limit: int
) -> list[ListedConflict]:
    """The next conflicts, newest day first, then by device, table, kind and key."""
    found: list[ListedConflict] = []
    for day, paths in _days(root, wanted):
        if after is not None and day > after.day:
            continue
        begin = after if after is not None and day == after.day else None
        found += _of_day(_rows(paths, wanted), day, after=begin, limit=limit - len(found))
        if len(found) >= limit:
            break
    return found


def arrivals_on(root: Path, day: date) -> int:
    """How often other content came under keys that were taken, on a day."""
    total = 0
    for _, paths in _days(root, ConflictFilter(day=day)):
        for path in paths:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(columns=["arrivals"]):
                    total += pc.sum(batch["arrivals"]).as_py() or 0
    return total


def _days(root: Path, wanted: ConflictFilter) -> Iterator[tuple[date, list[str]]]:
    """The days that may have such conflicts, newest first, each with its files."""
    location = root / _TABLE
    try:
        actions = pa.table(DeltaTable(location).get_add_actions(flatten=True))
    except TableNotFoundError:
        return
    bounds: Bounds = {
        name: (value, value) for name, value in wanted._asdict().items() if value is not None
    }
    near = within(actions, bounds)
    named = zip(near[f"partition.{PARTITION}"].to_pylist(), near["path"].to_pylist(), strict=True)
    for day, files in groupby(sorted(named, reverse=True), key=itemgetter(0)):
        yield day, [str(location / path) for _, path in files]


def _rows(paths: list[str], wanted: ConflictFilter) -> Iterator[tuple[Any, ...]]:
    texts = [(name, value) for name, value in wanted._asdict().items() if isinstance(value, str)]
    for path in paths:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(_AT_ONCE, columns=list(_COLUMNS)):
                rows = batch.select(list(_COLUMNS))
                for name, text in texts:
                    rows = rows.filter(pc.equal(rows[name].cast(pa.string()), str(text)))
                yield from zip(*(column.to_pylist() for column in rows.columns), strict=True)


def _of_day(
    rows: Iterator[tuple[Any, ...]], day: date, *, after: ConflictPlace | None, limit: int
) -> list[ListedConflict]:
    """The first conflicts behind a place; others are dropped as soon as enough come before them."""
    kept: dict[ConflictPlace, ListedConflict] = {}
    for device_id, source_table, kind, key, first, other, arrivals in rows:
        digest = sha256(msgspec.json.encode((first, other))).hexdigest()
        place = ConflictPlace(day, device_id or "", source_table, kind, key, digest)
        if after is not None and place <= after:
            continue
        known = kept.get(place)
        if known is None:
            kept[place] = ListedConflict(place, first[:MOST_SHOWN], other[:MOST_SHOWN], arrivals)
        else:
            kept[place] = known._replace(arrivals=known.arrivals + arrivals)
        if len(kept) > 2 * limit:
            kept = {near: kept[near] for near in sorted(kept)[:limit]}
    return [kept[place] for place in sorted(kept)[:limit]]
