"""The newest point of each key, found among columns."""

import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from ilyama_assets.transforms import newest_in_arrow, newest_points
from ilyama_assets.transforms.newest_points import IDENTITY, merged_points

Point = dict[str, Any]
MOMENT = pa.timestamp("us", tz="UTC")
POINTS = pa.schema(
    [
        *((name, pa.string()) for name in (*IDENTITY, "source")),
        ("ts", MOMENT),
        ("revision", pa.int64()),
    ]
)


def _points(seed: int) -> list[Point]:
    chance = random.Random(seed)
    keys = [
        dict(zip(IDENTITY, (kind, owner, key, instance, "observed"), strict=True))
        for kind, owner in (("component", "a"), ("component", "b"), ("global", None))
        for key in ("k", "l", "é")
        for instance in ("", "1", "2")
    ]
    sources = ("edge.telemetry", "edge.rows", "z")
    places = [(ts, s, revision) for ts in range(15) for s in sources for revision in (0, 1)]
    return [
        key | {"ts": ts, "source": source, "revision": revision}
        for key in keys
        for ts, source, revision in chance.sample(places, chance.randrange(1, 20))
    ]


def _newest(points: Sequence[Point]) -> list[Point]:
    newest: dict[tuple[Any, ...], Point] = {}
    for point in points:
        key = tuple(point[name] for name in IDENTITY)
        standing = newest.setdefault(key, point)
        if _rank(point) < _rank(standing):
            newest[key] = point
    return _sorted(newest.values())


def _rank(point: Point) -> tuple[int, str, int]:
    return -point["ts"], point["source"], -point["revision"]


def _sorted(points: Any) -> list[Point]:
    return sorted(points, key=lambda point: [str(point[name]) for name in IDENTITY])


@pytest.mark.parametrize("most_groups", [2**62, 20], ids=["few keys", "keys numbered anew"])
@pytest.mark.parametrize("most_held", [10, 100, 10_000])
def test_the_newest_points_equal_brute_force(
    most_groups: int, most_held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(newest_in_arrow, "_MOST_GROUPS", most_groups)
    monkeypatch.setattr(newest_points, "_MOST_HELD", most_held)
    points = _points(1)
    random.Random(2).shuffle(points)
    tables = [pa.Table.from_pylist(points[n : n + 7], POINTS) for n in range(0, len(points), 7)]

    found = [_plain(table) for table in merged_points(tables)]

    assert _newest([point for rows in found for point in rows]) == _newest(points)
    assert all(len(_newest(rows)) == len(rows) for rows in found)
    assert len(found) == 1 or most_held == 10


def _plain(table: pa.Table) -> list[Point]:
    rows: list[Point] = table.set_column(
        table.column_names.index("ts"), "ts", table["ts"].cast(pa.int64())
    ).to_pylist()
    return rows
