"""The current value of a key is the newest of its datapoints that did not come late."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from ilyama_assets.tables import CURRENT_VALUE, METRIC_DATAPOINT, STATE_DATAPOINT
from ilyama_assets.transforms.current_values import newest_per_key
from ilyama_assets.transforms.newest_points import IDENTITY, newest_points_of_drains
from ilyama_resources.delta.data_files import write_data_file
from ilyama_resources.delta.warehouse import Warehouse
from ilyama_resources.postgres.derived_runs import DerivedRun

Point = dict[str, Any]
MOMENT = pa.timestamp("us", tz="UTC")
POINTS = pa.schema(
    [
        *((name, pa.string()) for name in (*IDENTITY, "kind", "source", "datapoint_id")),
        ("value_double", pa.float64()),
        ("value_text", pa.string()),
        ("ts", MOMENT),
        ("late", pa.bool_()),
        ("revision", pa.int64()),
    ]
)
START = datetime(2026, 4, 28, 9, tzinfo=UTC)
TOLD = ("kind", "value_double", "value_text", "ts", "source")


def _point(*, kind: str = "metric", at: int = 0, late: bool = False, **changes: Any) -> Point:
    value: Any = changes.pop("value", 1.0)
    return {
        "owner_kind": "component",
        "owner_id": "acme/one",
        "key": "pumps.v",
        "instance": "1",
        "provenance": "observed",
        "kind": kind,
        "source": "edge.rows",
        "datapoint_id": f"{kind}-{at}",
        "value_double": value if kind == "metric" else None,
        "value_text": value if kind == "state" else None,
        "ts": START + timedelta(microseconds=at),
        "late": late,
        "revision": 0,
    } | changes


def _frame(session: SparkSession, points: Sequence[Point]) -> DataFrame:
    return session.createDataFrame(pa.Table.from_pylist(list(points), POINTS))


def _newest(session: SparkSession, points: Sequence[Point]) -> list[Point]:
    return _told(newest_per_key(_frame(session, points), stale_after_h=24))


def _told(values: DataFrame) -> list[Point]:
    rows = values.toArrow().to_pylist()
    return [{name: row[name] for name in (*IDENTITY, *TOLD)} for row in rows]


def _by_hand(points: Sequence[Point]) -> list[Point]:
    newest: dict[tuple[str, ...], Point] = {}
    for point in points:
        identity = tuple(point[name] for name in IDENTITY)
        standing = newest.get(identity)
        if not point["late"] and (standing is None or _place(point) > _place(standing)):
            newest[identity] = point
    return [{name: point[name] for name in (*IDENTITY, *TOLD)} for point in newest.values()]


def _place(point: Point) -> tuple[Any, ...]:
    return (point["ts"], point["revision"], point["kind"] == "metric")


def _random_points(seed: int) -> list[Point]:
    chance = random.Random(seed)
    found: dict[tuple[Any, ...], Point] = {}
    for number in range(600):
        point = _point(
            kind=chance.choice(("metric", "state")),
            at=chance.randrange(-8, 8),
            late=chance.random() < 0.4,
            owner_id=chance.choice(("acme/one", "acme/two")),
            key=chance.choice(("pumps.v", "pumps.w", "pumps.é")),
            instance=chance.choice(("", "1", "a%2Fb")),
            provenance=chance.choice(("observed", "calculated")),
            revision=chance.choice((0, 0, 0, 1)),
        )
        point["value_double" if point["kind"] == "metric" else "value_text"] = (
            chance.choice((number / 7, None)) if point["kind"] == "metric" else f"text {number}"
        )
        found[(*(point[name] for name in IDENTITY), *_place(point))] = point
    return chance.sample([*found.values()], len(found))


def _sorted(rows: list[Point]) -> list[Point]:
    return sorted(rows, key=lambda row: [row[name] for name in IDENTITY])


@pytest.mark.parametrize("seed", [1, 2])
def test_the_newest_per_key_equals_brute_force(session: SparkSession, seed: int) -> None:
    points = _random_points(seed)

    assert _sorted(_newest(session, points)) == _sorted(_by_hand(points))


def _stored(warehouse: Warehouse, drains: Sequence[Sequence[Point]]) -> None:
    """Points in the files of their tables, as drains write them."""
    for contract in (METRIC_DATAPOINT, STATE_DATAPOINT):
        warehouse.ensure(contract)
        column = "value_double" if contract is METRIC_DATAPOINT else "value_text"
        for drain_id, points in enumerate(drains, start=1):
            rows = [
                point | {"value": point[column], "drain_id": drain_id}
                for point in points
                if f"{point['kind']}_datapoint" == contract.name
            ]
            table = pa.Table.from_pylist(rows, contract.schema).drop_columns("day")
            file = write_data_file(
                warehouse.location(contract.name),
                contract,
                table,
                day=START.date(),
                name=f"drain-{drain_id}",
            )
            warehouse.add(contract.name, drain_id, [file])


def test_the_newest_of_some_drains_equals_brute_force(
    session: SparkSession, tmp_path: Path
) -> None:
    points = _random_points(3)
    drains = [points[start : start + 150] for start in range(0, len(points), 150)]
    warehouse = Warehouse(tmp_path, "test")
    _stored(warehouse, drains)
    wanted = [point for drain in drains[1:3] for point in drain]

    run = DerivedRun("current_value", 1, 2, 3)
    found = newest_points_of_drains(session, warehouse, run, tasks=3)
    assert _sorted(_told(newest_per_key(found, stale_after_h=24))) == _sorted(_by_hand(wanted))


def test_drains_that_wrote_no_datapoint_change_nothing(
    session: SparkSession, tmp_path: Path
) -> None:
    warehouse = Warehouse(tmp_path, "test")
    _stored(warehouse, [])

    run = DerivedRun("current_value", 1, 1, 1)
    found = newest_points_of_drains(session, warehouse, run, tasks=2)

    assert _told(newest_per_key(found, stale_after_h=24)) == []


def test_a_late_point_never_wins(session: SparkSession) -> None:
    points = [_point(at=1, value=1.0), _point(at=9, value=9.0, late=True)]

    assert [row["value_double"] for row in _newest(session, points)] == [1.0]


def test_a_key_with_nothing_but_late_points_has_no_current_value(session: SparkSession) -> None:
    assert _newest(session, [_point(late=True)]) == []


@pytest.mark.parametrize(
    ("metric_at", "state_at", "kind"),
    [(1, 2, "state"), (2, 1, "metric"), (1, 1, "metric")],
    ids=["the newer state", "the newer metric", "at one moment the metric"],
)
def test_a_key_of_two_kinds_has_one_value(
    session: SparkSession, metric_at: int, state_at: int, kind: str
) -> None:
    points = [_point(at=metric_at), _point(kind="state", at=state_at, value="on")]

    (value,) = _newest(session, points)

    assert value["kind"] == kind
    assert (value["value_double"] is None) == (kind == "state")
    assert (value["value_text"] is None) == (kind == "metric")


def test_a_newest_value_of_null_is_the_value(session: SparkSession) -> None:
    (value,) = _newest(session, [_point(at=1), _point(at=2, value=None)])

    assert (value["value_double"], value["ts"]) == (None, START + timedelta(microseconds=2))


def test_a_value_says_what_it_rests_on(session: SparkSession) -> None:
    (row,) = newest_per_key(_frame(session, [_point(at=3)]), stale_after_h=24).toArrow().to_pylist()

    assert [*row] == CURRENT_VALUE.schema.names
    assert row["contributors"] == '[{"source":"edge.rows","datapoint_id":"metric-3"}]'
    assert row["policy"] == "latest"


@pytest.mark.parametrize(
    ("age_h", "stale_after_h", "state"),
    [(23.0, 24, "fresh"), (25.0, 24, "stale"), (0.2, 0.5, "fresh"), (0.7, 0.5, "stale")],
)
def test_a_value_is_stale_when_it_is_old(
    session: SparkSession, age_h: float, stale_after_h: float, state: str
) -> None:
    point = _point(ts=datetime.now(UTC) - timedelta(hours=age_h))

    (row,) = newest_per_key(_frame(session, [point]), stale_after_h=stale_after_h).collect()

    assert row.state == state


@pytest.mark.parametrize("year", [1, 1500, 9998])
def test_a_value_of_any_year_is_read_without_spark(
    session: SparkSession, tmp_path: Path, year: int
) -> None:
    moment = datetime(year, 6, 1, 12, 0, 0, 1, tzinfo=UTC)
    newest = newest_per_key(_frame(session, [_point(ts=moment)]), stale_after_h=24)

    newest.write.format("delta").save(str(tmp_path / "values"))

    stored = pa.table(DeltaTable(tmp_path / "values").to_pyarrow_table(columns=["ts"]))
    assert stored["ts"].to_pylist() == [moment]
