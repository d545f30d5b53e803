"""A datapoint that is there twice is found, wherever it lies, and nothing else is."""

import random

import pyarrow as pa
import pytest

from ilyama_assets.drains.encoding import Encoder
from ilyama_assets.drains.repeated_points import SAMPLE, repeated_points
from ilyama_assets.tables import METRIC_DATAPOINT
from ilyama_protocol.identifiers import datapoint_id
from ilyama_protocol.intake.outcomes import Origin
from tests.unit.intake.traffic import B, batch, change, columns, sample, sampled, taken, telemetry

Place = tuple[str, str, str, str, int]
"""The owner, key, source, instance and moment of a datapoint."""


def points(places: list[Place], revisions: list[int] | None = None) -> pa.Table:
    """Datapoints as far as it matters here."""
    ids = [
        datapoint_id(ts, ("component", owner, key, instance, "observed", source))
        for owner, key, source, instance, ts in places
    ]
    told = {
        "datapoint_id": pa.array(ids, pa.string()),
        "ts": pa.array([ts for *_, ts in places], METRIC_DATAPOINT.schema.field("ts").type),
        "revision": pa.array(revisions or [0] * len(places), pa.int64()),
    }
    for name, of in (("owner_id", 0), ("key", 1), ("source", 2)):
        told[name] = pa.array([place[of] for place in places], pa.string()).dictionary_encode()
    return pa.table(told)


def run(key: str, *moments: int, owner: str = "a", source: str = "rows") -> list[Place]:
    return [(owner, key, source, "", ts) for ts in moments]


UNIQUE = {
    "nothing at all": [],
    "one": run("k", 1),
    "rising": run("k", 1, 2, 3),
    "the columns of a batch": run("k", 1, 2) + run("l", 1, 2),
    "batches one after another": run("k", 1, 2) + run("l", 1, 2) + run("k", 3) + run("l", 3),
    "older batches later, as releases have them": run("k", 5, 6) + run("k", 1, 2),
    "moments in any order": run("k", 3, 1, 2),
    "batches between each other": run("k", 1, 3, 5) + run("k", 2, 4),
    "devices at one moment": run("k", 1) + run("k", 1, owner="b"),
    "sources at one moment": run("k", 1) + run("k", 1, source="telemetry"),
    "instances at one moment": [("a", "k", "rows", name, 1) for name in "xy"],
}
REPEATED = {
    "beside each other": run("k", 1, 1),
    "two columns under one key": run("k", 1, 2) + run("k", 1, 2),
    "one row of two columns": run("k", 1, 2) + run("k", 2),
    "far away": run("k", 1) + run("l", 1, 2) + run("k", 2, 9) + run("l", 3) + run("k", 1),
    "within another run": run("k", 1, 5, 9) + run("k", 2, 5),
    "in falling moments": run("k", 3, 2, 3),
}


@pytest.mark.parametrize("places", UNIQUE.values(), ids=UNIQUE.keys())
def test_what_is_unique_is_no_breach(places: list[Place]) -> None:
    assert repeated_points(points(places)) == []


@pytest.mark.parametrize("places", REPEATED.values(), ids=REPEATED.keys())
def test_what_repeats_is_named(places: list[Place]) -> None:
    table = points(places)
    ids = table["datapoint_id"].to_pylist()

    assert repeated_points(table) == sorted({i for i in ids if ids.count(i) > 1})
    assert repeated_points(pa.concat_tables([table.slice(n, 1) for n in range(len(ids))]))


def test_a_correction_is_no_repetition() -> None:
    assert repeated_points(points(run("k", 1, 1), [0, 1])) == []


def test_a_few_of_many_are_named() -> None:
    assert len(repeated_points(points(run("k", *range(50)) * 2))) == SAMPLE


@pytest.mark.parametrize("seed", range(20))
def test_it_finds_what_counting_finds(seed: int) -> None:
    chance = random.Random(seed)
    places = [
        (chance.choice("ab"), chance.choice("kl"), chance.choice(("rows", "telemetry")), "", ts)
        for ts in (chance.randrange(60) for _ in range(seed * 3))
    ]
    table = points(places)
    expected = sorted({points([p])["datapoint_id"][0].as_py() for p in places
                       if places.count(p) > 1})[:SAMPLE]  # fmt: skip
    parts = [table.slice(begin, 7) for begin in range(0, len(places), 7)]

    assert repeated_points(pa.concat_tables([*parts, table.slice(0, 0)])) == expected


def test_what_the_engine_gives_has_none() -> None:
    rows = taken(
        batch(change(1, row={"v": 1, "w": 2}), change(2, row={"w": 3})),
        batch(change(3, pk=2, row={"v": 1}), epoch=B),
    )
    sent = [telemetry(sample(n, v=1, w=2), sample(n - 1, v=3), seq=n) for n in (5, 9, 7)]
    schema = columns(v="REAL", w="REAL")
    samples = sampled(*sent, telemetry(sample(2, v=1, w=2), seq=10, schema=schema), engine=rows)
    encoded = Encoder(1, Origin.LIVE).encode(samples.decisions.outcomes)

    assert repeated_points(encoded[METRIC_DATAPOINT.name]) == []
