"""A release goes on where it was killed, and people approve while one runs, or a day's replay."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from ilyama_assets.drains.protocol import DrainReport, Intake
from ilyama_protocol.fingerprint import SchemaColumn, schema_hash
from ilyama_resources.faults import CRASH_STATUS
from ilyama_resources.postgres.governance.reviews import Review
from tests.governed import act_on, register, reviewing, reviews
from tests.oracle import Event
from tests.platform import Platform
from tests.stack.test_governance import DAY, FLEET, OTHER, drained
from tests.tables import NOT_OF_STAGING, assert_equals_oracle, expected_tables
from tests.unit.intake.traffic import NOW, TABLE, B, batch, change, columns, sample, telemetry
from tests.waiting import eventually, somebody_waits

ONE, THIRD = columns(v="TEXT"), columns(v="TEXT", w="REAL", x="INTEGER")
SAMPLED = "tanks"
RELEASE_POINTS = [
    "open.before",
    "decide.after",
    "seal.after",
    "commit.after:2",
    "close.after",
]


def traffic(*schemas: tuple[SchemaColumn, ...], start: int = 0) -> list[Event]:
    """What both devices send of each schema: changes of few keys, repetitions, telemetry."""
    sent: list[tuple[str, bytes]] = []
    for turn, schema in enumerate(schemas, start):
        first = 10 * turn
        row = {"v": f"{turn}", "w": turn / 2, "x": turn}
        shown = {column.name: row[column.name] for column in schema}
        rows = batch(
            change(first + 1, 1, row=shown),
            change(first + 5, 2, row=shown),
            change(first + 6, 1, op="delete"),
            schema=schema,
            number=first,
        )
        late = batch(change(first + 3, 2, row=shown), schema=schema, number=first + 1)
        newer = batch(change(turn + 1, 3, row=shown), schema=schema, number=first + 2, epoch=B)
        sent += [("rows", payload) for payload in (rows, late, rows, newer)]
        other = batch(change(first + 5, 2, row={"v": "?"}), schema=schema, number=first + 3)
        sent.append(("rows", other))
        sent += [("telemetry", payload) for payload in _telemetry(turn, schema)]
    return [
        Event(f"acme/{device}/sync/{kind}/batch", payload, NOW + (100 * start + place) * 1_000_000)
        for place, (kind, payload) in enumerate(sent)
        for device in FLEET
    ]


def _telemetry(turn: int, schema: tuple[SchemaColumn, ...]) -> list[bytes]:
    """Two batches that have a moment in common, and the first one again."""
    one, two = (
        telemetry(
            sample(10 * turn, w=turn + number / 10),
            sample(10 * turn + number, w=turn + 1.0),
            table=SAMPLED,
            seq=2 * turn + number,
            number=1_000 + 2 * turn + number,
            schema=schema,
        )
        for number in range(2)
    )
    return [one, two, one]


def assert_as_if_never_staged(platform: Platform, events: list[Event]) -> None:
    platform.drain()
    registry = {("acme", device): device for device in FLEET}
    expected = expected_tables(events, approves_all=True, registry=registry)
    assert_equals_oracle({table: platform.rows(table) for table in NOT_OF_STAGING}, expected)
    released = [line for line in platform.rows("batch_ledger") if line["origin"] == "staged"]
    assert sum(line["rows_new"] for line in released) == len(platform.rows("staged_rows")) > 0
    with platform.gateway.transaction() as tx:
        assert tx.backlog.sizes((d, t) for d in FLEET for t in (TABLE, SAMPLED)) == [
            (d, t, 0, 0) for d in FLEET for t in (TABLE, SAMPLED)
        ]


def of_schema(platform: Platform, schema: tuple[SchemaColumn, ...]) -> list[Review]:
    """The newest review of a schema of each table, of the first device; both share them."""
    hashes = [schema_hash(table, schema) for table in (TABLE, SAMPLED)]
    found = {r.schema_hash: r for r in reviews(platform.gateway) if r.device_id == FLEET[0]}
    return [found[named] for named in hashes]


def test_a_crash_between_approval_and_release_loses_and_doubles_nothing(
    platform: Platform,
) -> None:
    register(platform.gateway, *FLEET, project="waterworks")
    events = traffic(ONE, ONE, ONE)
    strict = {"ILYAMA_FIRST_SCHEMA": "review"}
    platform.import_events(events)
    platform.only_drain(**strict)
    assert platform.rows("row_changes") == platform.rows("telemetry_samples") == []
    for review in of_schema(platform, ONE):
        platform.ilyama("review", "approve", str(review.review_id))

    for point in RELEASE_POINTS:
        died = platform.try_ilyama("drain", CRASH_AT=point, ILYAMA_DRAIN_MAX_BYTES="1", **strict)
        assert died.returncode == CRASH_STATUS, f"{point}: {died.stderr}"

    assert_as_if_never_staged(platform, events)


@contextmanager
def between_seal_and_close(
    platform: Platform, run: Callable[[], DrainReport | None]
) -> Iterator[None]:
    """Run a drain on the side; it has sealed, and waits to commit its ledger, for the body."""
    with ThreadPoolExecutor(1) as side:
        with platform.gateway.lock("table batch_ledger"):
            done = side.submit(run)
            assert eventually(lambda: somebody_waits(platform.gateway))
            yield
        assert done.result(timeout=120) is not None


@pytest.mark.parametrize("running", ["a release", "a day's replay"])
def test_a_schema_that_is_approved_while_another_drain_runs_comes_with_the_next_release(
    platform: Platform, running: str
) -> None:
    gateway, desk = platform.gateway, reviewing(platform.gateway)
    register(gateway, *FLEET, project="waterworks")
    events = traffic(ONE, THIRD, OTHER, ONE, THIRD)
    drained(platform, events)
    for review in of_schema(platform, THIRD):
        desk.reject(act_on(review))
    for review in of_schema(platform, OTHER):
        desk.approve(act_on(review))
    with (
        platform.intake() as intake,
        intake.alone(),
        between_seal_and_close(platform, _of(intake, running)),
    ):
        for review in of_schema(platform, THIRD):
            desk.approve(act_on(desk.reopen(act_on(review))))
    drained(platform)
    later = traffic(THIRD, OTHER, start=50)
    drained(platform, later)
    assert_as_if_never_staged(platform, [*events, *later])


def _of(intake: Intake, running: str) -> Callable[[], DrainReport | None]:
    return lambda: intake.release(DAY) if running == "a release" else intake.replay(DAY)
