"""A schema that is accepted can be looked at again, and shown otherwise from then on."""

from datetime import date

import pytest

from ilyama_protocol.fingerprint import SchemaColumn, affinity_of, schema_hash
from ilyama_protocol.governance.bindings import MIRRORED, ColumnAction, Verb
from ilyama_protocol.intake.outcomes import Message
from ilyama_resources.landing.directory import Landing, register
from ilyama_resources.landing.segment_ids import RisingIds
from ilyama_resources.postgres import Gateway
from ilyama_resources.postgres.governance.reviews import Review
from ilyama_resources.postgres.lineages import LineageEntry, LineagePlace
from ilyama_service import lineages
from ilyama_service.reviewing import ReviewConflict, ReviewNotFound, UnfitActions
from ilyama_service.revising import Wish, revise
from tests.governed import act_on, paused, reviewing, reviews
from tests.governed import register as register_devices
from tests.oracle import Event
from tests.platform import Platform
from tests.unit.intake.traffic import NOW, TABLE, batch, change

DAY = date(2026, 4, 28)
DEVICE, OTHER_DEVICE = "dev-1", "dev-2"
SCHEMA = (
    SchemaColumn("id", affinity_of("INTEGER"), pk_ordinal=1, not_null=True),
    SchemaColumn("created_at", affinity_of("DATETIME"), pk_ordinal=0, not_null=True),
    SchemaColumn("flow", affinity_of("REAL"), pk_ordinal=0, not_null=False),
)
HASH = schema_hash(TABLE, SCHEMA)
IGNORE, DEFER = ColumnAction(Verb.IGNORE), ColumnAction(Verb.DEFER)
UNDATED = {"id": MIRRORED, "created_at": IGNORE, "flow": MIRRORED}


def rows_of(*numbers: int, device: str = DEVICE) -> Event:
    """A message of rows whose moments are texts in a column of numbers."""
    changes = [
        change(n, pk=n, row={"id": n, "created_at": "2026-04-28 10:00:00", "flow": n / 2})
        for n in numbers
    ]
    payload = batch(*changes, schema=SCHEMA, number=numbers[0])
    return Event(f"acme/{device}/sync/rows/batch", payload, NOW + numbers[0] * 1_000_000)


def drained(platform: Platform, *events: Event) -> None:
    """Drain, and release what is free, until nothing waits."""
    messages = [
        Message("", place, event.topic, event.payload, event.received_at_us)
        for place, event in enumerate(events)
    ]
    if messages:
        register(platform.gateway, [Landing(platform.settings.landing).write(IDS.next(), messages)])
    with platform.intake() as intake, intake.alone():
        while intake.drain() is not None or intake.release(DAY) is not None:
            pass


IDS = RisingIds()


def asked_again(gateway: Gateway, device_id: str = DEVICE, schema: str | None = None) -> Review:
    with gateway.transaction() as tx:
        review = revise(tx, Wish(device_id, TABLE, schema, "ann"))
        tx.commit()
    return review


def reset(gateway: Gateway) -> LineageEntry:
    with gateway.transaction() as tx:
        entry = lineages.reset_materialization(tx, LineagePlace(DEVICE, TABLE), actor="ann")
        tx.commit()
    return entry


def lineage(gateway: Gateway) -> LineageEntry:
    with gateway.transaction() as tx:
        return tx.lineages.find(DEVICE, TABLE)


def shown(platform: Platform, device_id: str = DEVICE) -> list[int]:
    rows = platform.rows("row_changes")
    return sorted(row["commit_seq"] for row in rows if row["device_id"] == device_id)


def values(platform: Platform) -> list[tuple[str, str, float]]:
    points = platform.rows("metric_datapoint")
    return sorted((p["owner_id"], p["key"], p["value"]) for p in points)


def test_rows_that_never_fit_are_shown_once_their_schema_is_revised(platform: Platform) -> None:
    gateway = platform.gateway
    register_devices(gateway, DEVICE)
    drained(platform, rows_of(1, 2, 3, 4, 5))
    assert (shown(platform), lineage(gateway).pauses) == ([], ["circuit_open"])

    told = platform.ilyama("review", "revise", DEVICE, TABLE, "--note", "moments are texts")
    (review,) = reviews(gateway)
    assert told == f"Review {review.review_id} is queued, version 1.\n"
    told = platform.ilyama("review", "show", str(review.review_id), "--column", "created_at=ignore")
    assert "5 rows would be shown" in told
    assert "UTC on request, as it is accepted" in told
    word = ("--version", "1", "--column", "created_at=ignore")
    platform.ilyama("review", "approve", str(review.review_id), *word)
    reset(gateway)
    drained(platform)
    drained(platform, rows_of(6))

    assert shown(platform) == [1, 2, 3, 4, 5, 6]
    assert lineage(gateway)[2:] == ([], None, 0, 0)
    published = [(DEVICE, f"{TABLE}.flow", n / 2) for n in range(1, 7)]
    assert [v for v in values(platform) if v[1].endswith("flow")] == published
    with platform.intake() as intake, intake.alone():
        report = intake.replay(DAY)
    assert {file.table for file in report.seal.files} == {"batch_ledger"}


def test_what_was_shown_before_a_revision_is_replayed_as_it_was_shown(platform: Platform) -> None:
    gateway = platform.gateway
    register_devices(gateway, DEVICE)
    fits = change(1, pk=1, row={"id": 1, "created_at": 17, "flow": 0.5})
    waits = change(2, pk=2, row={"id": 2, "created_at": "today", "flow": 1.0})
    topic, payload = f"acme/{DEVICE}/sync/rows/batch", batch(fits, waits, schema=SCHEMA)
    drained(platform, Event(topic, payload, NOW))
    assert shown(platform) == [1]

    reviewing(gateway).approve(act_on(asked_again(gateway)), UNDATED)
    platform.ilyama("lineages", "retry-errors")
    drained(platform)

    dated = [v for v in values(platform) if v[1].endswith("created_at")]
    assert (shown(platform), dated) == ([1, 2], [(DEVICE, f"{TABLE}.created_at", 17.0)])
    with platform.intake() as intake, intake.alone():
        report = intake.replay(DAY)
    assert {file.table for file in report.seal.files} == {"batch_ledger"}


def test_all_devices_of_a_project_publish_what_a_revision_says(platform: Platform) -> None:
    gateway = platform.gateway
    register_devices(gateway, DEVICE, OTHER_DEVICE, project="waterworks")
    drained(platform, rows_of(1), rows_of(1, device=OTHER_DEVICE))
    only_ids = UNDATED | {"flow": IGNORE}

    reviewing(gateway).approve(act_on(asked_again(gateway)), only_ids)
    drained(platform, rows_of(2), rows_of(2, device=OTHER_DEVICE))

    published = [(name, f"{TABLE}.id", 2.0) for name in (DEVICE, OTHER_DEVICE)]
    assert values(platform) == published
    assert shown(platform) == shown(platform, OTHER_DEVICE) == [2]


@pytest.mark.parametrize("verb", ["reject", "abandon"])
def test_a_revision_that_nobody_approves_changes_nothing(platform: Platform, verb: str) -> None:
    gateway = platform.gateway
    register_devices(gateway, DEVICE)
    good = [
        batch(change(n, pk=n, row={"id": n, "created_at": n}), schema=SCHEMA, number=n)
        for n in (1, 2, 3)
    ]
    events = [Event(f"acme/{DEVICE}/sync/rows/batch", p, NOW + n) for n, p in enumerate(good)]
    drained(platform, events[0])
    review = asked_again(gateway)
    drained(platform, events[1])
    with pytest.raises(lineages.WrongState, match="under review"):
        reset(gateway)

    getattr(reviewing(gateway), verb)(act_on(review))
    drained(platform, events[2])

    assert (shown(platform), paused(gateway)) == ([1, 2, 3], [])
    with pytest.raises(ReviewConflict, match="revise"):
        reviewing(gateway).reopen(act_on(reviews(gateway)[-1]))
    assert asked_again(gateway).state == "queued"


def test_only_what_is_accepted_can_be_revised_and_one_at_a_time(platform: Platform) -> None:
    gateway = platform.gateway
    register_devices(gateway, DEVICE)
    with pytest.raises(ReviewNotFound, match="nothing"):
        asked_again(gateway)
    drained(platform, rows_of(1))
    with pytest.raises(ReviewNotFound, match="no schema"):
        asked_again(gateway, schema="0a" * 32)

    review = asked_again(gateway, schema=HASH)

    assert (review.revises, review.columns, review.schema_class) == (
        True,
        SCHEMA,
        "compatible_mapped",
    )
    with pytest.raises(ReviewConflict, match="open already"):
        asked_again(gateway)
    with pytest.raises(UnfitActions, match="created_at"):
        reviewing(gateway).approve(act_on(review), UNDATED | {"created_at": DEFER})
    with gateway.transaction() as tx:
        (line,) = tx.audit.page(limit=1)
    assert (line.actor, line.verb) == ("ann", "revise")
    assert line.resource == f"review/{review.review_id}"
