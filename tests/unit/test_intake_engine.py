"""The engine equals the oracle, however a stream is cut into drains."""

import random
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from ilyama_protocol.intake.outcomes import Origin
from tests.memory_platform import MemoryPlatform
from tests.oracle import Event, Oracle
from tests.streams import generate, generate_changes
from tests.tables import assert_equals_oracle, expected_tables
from tests.unit.intake.traffic import (
    DEVICE_ID,
    NOW,
    TABLE,
    TELEMETRY_TOPIC,
    TOPIC,
    A,
    B,
    C,
    batch,
    change,
    columns,
    sample,
    telemetry,
)

SEEDS = range(2)
GOVERNED_SEEDS = range(100, 104)


def in_drains(events: list[Event], drains: int, seed: int) -> list[list[Event]]:
    """A stream cut at random places; order stays."""
    chance = random.Random(seed)
    inner = min(drains - 1, len(events) - 1)
    cuts = [0, *sorted(chance.sample(range(1, len(events)), inner)), len(events)]
    return [events[start:end] for start, end in pairwise(cuts)]


@pytest.mark.parametrize("drains", [1, 9], ids="{} drains".format)
@pytest.mark.parametrize("seed", SEEDS, ids="seed {}".format)
def test_every_split_into_drains_equals_the_oracle(seed: int, drains: int) -> None:
    events = generate(seed, batches=50)
    platform = MemoryPlatform()
    for part in in_drains(events, drains, seed):
        platform.drain(part)
    expected = expected_tables(events)
    derived = {"current_value": platform.current_values(), "gaps": platform.gaps()}
    assert_equals_oracle(platform.tables | derived, expected)


def test_a_message_per_drain_equals_the_oracle() -> None:
    events = generate(99, batches=40)
    platform = MemoryPlatform()
    for event in events:
        platform.drain([event])
    assert_equals_oracle(platform.tables | {"gaps": platform.gaps()}, expected_tables(events))


@pytest.mark.parametrize("drains", [1, 7, 40], ids="{} drains".format)
@pytest.mark.parametrize("seed", GOVERNED_SEEDS, ids="seed {}".format)
def test_schemas_that_change_in_the_field_equal_the_oracle(seed: int, drains: int) -> None:
    events = generate_changes(seed, batches=60)
    platform, oracle = MemoryPlatform(), Oracle()
    for part in in_drains(events, drains, seed):
        platform.drain(part)
    for event in events:
        oracle.feed(event)
    asked = [(*place, review.schema_class) for place, review in platform.reviews.items()]
    assert sorted(asked) == sorted(tuple(review) for review in oracle.reviews())
    assert_equals_oracle(platform.tables, oracle.tables())


def test_the_changes_of_schemas_are_of_every_class() -> None:
    oracle = Oracle()
    for seed in GOVERNED_SEEDS:
        for event in generate_changes(seed, batches=60):
            oracle.feed(event)
    met = {review.schema_class for review in oracle.reviews()}
    assert met == {"breaking", "compatible_additive", "ambiguous", "unknown"}


@pytest.mark.parametrize("seed", range(3), ids="seed {}".format)
def test_pauses_and_releases_at_any_moment_equal_the_oracle(seed: int) -> None:
    """Lineages are paused, resumed and released between drains, whatever they send meanwhile."""
    events, chance = generate(seed, batches=60), random.Random(seed)
    platform, oracle = MemoryPlatform(), Oracle()
    lines = expected_tables(events)["batch_ledger"]
    lineages = sorted(
        {(line["device_id"], line["source_table"]) for line in lines if line["rows_new"]}
    )
    for part in in_drains(events, 12, seed):
        for lineage in chance.sample(lineages, len(lineages) // 2):
            reason = chance.choice(("operator", "operator", "circuit_open", "backpressure"))
            verb = chance.choice(("pause", "resume"))
            getattr(platform, verb)(lineage, reason)
            getattr(oracle.staging, verb)(lineage, reason)
        if chance.random() < 0.6:
            retried = frozenset(chance.sample(lineages, len(lineages) // 2))
            platform.release(retried=retried)
            oracle.release(retried=retried)
        platform.drain(part)
        for event in part:
            oracle.feed(event)
    assert {row["kind"] for row in platform.tables["staged_rows"]} == {"rows", "telemetry"}
    assert any(line["origin"] == "staged" for line in platform.tables["batch_ledger"])
    stored = platform.tables | {"current_value": platform.current_values()}
    assert_equals_oracle(stored, oracle.tables())
    assert _releases(platform.tables["batch_ledger"]) == _releases(oracle.tables()["batch_ledger"])


def _releases(ledger: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """The batches that were released of each device, in order."""
    released: dict[str, list[str]] = {}
    for line in ledger:
        if line["origin"] == "staged":
            released.setdefault(line["device_id"], []).append(line["batch_id"])
    return released


@pytest.mark.parametrize("drains", [1, 2, 4], ids="{} drains".format)
def test_rejections_before_numbers_began_anew_explain_no_gap_after_it(drains: int) -> None:
    fine: dict[str, Any] = {}
    wrong: dict[str, Any] = {"row_count": 7}
    sent_in = ([(1, fine), (3, wrong), (4, wrong), (5, fine)], [(1, fine), (4, wrong), (9, fine)])
    eras = [
        [telemetry(sample(n), seq=n, number=100 * era + n, **members) for n, members in sent]
        for era, sent in enumerate(sent_in)
    ]
    platform, oracle = MemoryPlatform(), Oracle()
    for era, payloads in enumerate(eras):
        if era:
            platform.reset_sequence((DEVICE_ID, TABLE))
            oracle.reset_sequence(DEVICE_ID, TABLE)
        begin = NOW + era * 60_000_000
        events = [Event(TELEMETRY_TOPIC, p, begin + n * 1_000_000) for n, p in enumerate(payloads)]
        for part in in_drains(events, drains, 1):
            platform.drain(part)
            for event in part:
                oracle.feed(event)

    gaps = platform.gaps()
    assert [(gap["era"], gap["rejections"]) for gap in gaps] == [(0, 2), (1, 1)]
    assert_equals_oracle(
        platform.tables | {"gaps": gaps}, oracle.tables() | {"gaps": oracle.gaps()}
    )


@pytest.mark.parametrize("drains", [1, 2, 4], ids="{} drains".format)
def test_what_was_reviewed_waits_for_the_pause_of_an_operator(drains: int) -> None:
    """Of two values of one moment the first stays, whichever pause ends first."""
    one, two = columns(celsius="REAL"), columns(celsius="REAL", bar="REAL")
    lineage = (DEVICE_ID, TABLE)
    payloads = [
        telemetry(sample(1, celsius=1.0), seq=1, schema=one),
        telemetry(sample(9, celsius=2.0), seq=2, schema=one),
        telemetry(sample(9, celsius=3.0), seq=3, schema=two),
        telemetry(sample(9, celsius=4.0), seq=4, schema=one),
    ]
    events = [Event(TELEMETRY_TOPIC, p, NOW + n * 1_000_000) for n, p in enumerate(payloads)]
    platform, oracle = MemoryPlatform(), Oracle()
    platform.drain(events[:1])
    oracle.feed(events[0])
    platform.pause(lineage)
    oracle.staging.pause(lineage)
    for part in in_drains(events[1:], drains, 1):
        platform.drain(part)
        for event in part:
            oracle.feed(event)
    for reason in ("schema_review", "operator"):
        platform.resume(lineage, reason)
        oracle.staging.resume(lineage, reason)
        platform.release()
        oracle.release()

    values = {row["ts"]: row["value"] for row in platform.tables["metric_datapoint"]}
    assert [*values.values()] == [1.0, 2.0]
    assert len(platform.tables["key_conflicts"]) == 2
    assert_equals_oracle(platform.tables, oracle.tables())


@pytest.mark.parametrize("drains", [1, 2, 6, 30], ids="{} drains".format)
@pytest.mark.parametrize("seed", range(4), ids="seed {}".format)
def test_who_disagrees_with_its_project_is_reviewed_however_the_stream_is_cut(
    seed: int, drains: int
) -> None:
    chance = random.Random(seed)
    devices = [f"acme/dev-{number}" for number in range(8)]
    projects = {device: chance.choice(("one", "two")) for device in devices[:-1]}
    kinds = ("REAL", "TEXT", "INTEGER")
    events = []
    for number in range(40):
        device, table = chance.choice(devices), chance.choice(("pumps", "valves"))
        schema = columns(v=chance.choice(kinds), w="TEXT", x=chance.choice(kinds))
        row = change(number, row={"v": 1, "w": "a", "x": 2})
        payload = batch(row, table=table, number=number, schema=schema[: chance.choice((2, 3))])
        events.append(Event(f"{device}/sync/rows/batch", payload, NOW + number // 3))
    platform, oracle = MemoryPlatform(projects), Oracle(projects=projects)
    for part in in_drains(events, drains, seed):
        platform.drain(part)
    for event in events:
        oracle.feed(event)

    asked = [(*place, review.schema_class) for place, review in platform.reviews.items()]
    assert sorted(asked) == sorted(tuple(review) for review in oracle.reviews())
    assert_equals_oracle(platform.tables, oracle.tables())


@pytest.mark.parametrize("drains", [1, 5, 60], ids="{} drains".format)
@pytest.mark.parametrize("seed", range(3), ids="seed {}".format)
def test_rows_of_schemas_that_were_forgotten_meanwhile_are_read_with_their_columns(
    seed: int, drains: int
) -> None:
    """More schemas come than a state remembers, again and again, not always spelled out."""
    chance, lineage = random.Random(seed), (DEVICE_ID, TABLE)
    schemas = [columns(v=chance.choice(("REAL", "TEXT")), **{f"n{n}": "REAL"}) for n in range(40)]
    events = []
    for number in range(120):
        schema, is_told = chance.choice(schemas), chance.random() < 0.7
        values = {"v": chance.choice((1, "one")), schema[1].name: chance.choice((2, "two"))}
        row = change(number, row=values | {"unnamed": 3})
        payload = batch(row, number=number, schema=schema, announce=is_told)
        events.append(Event(TOPIC, payload, NOW + number * 1_000_000))
    platform, oracle = MemoryPlatform(), Oracle()
    for part in in_drains(events, drains, seed):
        platform.drain(part)
    for event in events:
        oracle.feed(event)
    for side in (platform, oracle.staging):
        side.resume(lineage, "schema_review")
    platform.release()
    oracle.release()

    asked = [(*place, review.schema_class) for place, review in platform.reviews.items()]
    assert sorted(asked) == sorted(tuple(review) for review in oracle.reviews())
    assert len(platform.tables["quarantined_datapoints"]) > 0
    stored = platform.tables | {"current_value": platform.current_values()}
    assert_equals_oracle(stored, oracle.tables())


def _journals(chance: random.Random) -> list[Event]:
    """Batches of journals that come one after another, with stragglers of those before."""
    journals = chance.sample((A, B, C), 3)
    events = []
    for number in range(30):
        epoch = journals[chance.randint(0, number // 10)]
        rows = [
            change(chance.randint(0, 9), chance.randint(0, 2), row={"v": f"{number}.{n}"})
            for n in range(chance.randint(1, 3))
        ]
        table = chance.choice((TABLE, "valves"))
        payload = batch(*rows, epoch=epoch, table=table, number=number)
        events.append(Event(TOPIC, payload, NOW + number * 1_000_000))
    return events


def _refused(event: Event) -> Event:
    """The same message with a version that nobody speaks."""
    payload = event.payload.replace(b'"format_version":1', b'"format_version":9')
    return replace(event, payload=payload)


@pytest.mark.parametrize("drains", [1, 2, 8, 30], ids="{} drains".format)
@pytest.mark.parametrize("seed", range(8), ids="seed {}".format)
def test_rejections_that_are_replayed_at_any_moment_equal_the_oracle(
    seed: int, drains: int
) -> None:
    """One journal is refused as a whole: accepted later, it is as old as when it came."""
    chance = random.Random(seed)
    platform, oracle = MemoryPlatform(), Oracle()
    waiting: list[Event] = []
    troubled = chance.choice((A, B, C)).encode()
    for part in [*in_drains(_journals(chance), drains, seed), []]:
        refused = [e for e in part if troubled in e.payload or chance.random() < 0.2]
        sent = [_refused(event) if event in refused else event for event in part]
        platform.drain(sent)
        for event in sent:
            oracle.feed(event)
        waiting += refused
        again = [event for event in waiting if not part or chance.random() < 0.3]
        waiting = [event for event in waiting if event not in again]
        platform.drain(again, Origin.REJECTION)
        for event in again:
            oracle.replay(event)

    assert_equals_oracle(platform.tables, oracle.tables())
    for table in (TABLE, "valves"):
        assert platform.device_table(table) == oracle.device_tables.rows(table, {})
