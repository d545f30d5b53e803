"""Schemas that change in the field: drains ask, people decide, and rows come as approved."""

import json
import shlex
from datetime import date
from itertools import groupby

import pytest

from ilyama_protocol.fingerprint import Affinity, SchemaColumn, schema_hash
from ilyama_protocol.governance.bindings import ColumnAction, Verb, mirrored
from ilyama_protocol.intake.outcomes import Message
from ilyama_protocol.intake.state import MOST_UNACCEPTED, decode_state
from ilyama_resources.faults import CRASH_STATUS
from ilyama_resources.landing.directory import Landing, register
from ilyama_resources.landing.segment_ids import RisingIds
from ilyama_resources.postgres.governance.bindings import BindingScope
from ilyama_service import sampled_sums
from ilyama_service.review_evidence import Trial, evidence_of
from tests.governed import act_on, paused, reviewing, reviews
from tests.governed import register as register_devices
from tests.oracle import Event
from tests.platform import Platform
from tests.streams import generate_changes
from tests.streams.generator import DAY_US
from tests.tables import TABLES, assert_equals_oracle, expected_tables
from tests.unit.intake.traffic import NOW, TABLE, batch, change, columns

DAY = date(2026, 4, 28)
ONE, OTHER = columns(v="TEXT"), columns(v="TEXT", w="REAL")
OTHER_HASH = schema_hash(TABLE, OTHER)
FLEET = ("dev-1", "dev-2")


def sent(*payloads: bytes, at: int = 0) -> list[Event]:
    """Payloads that both devices send, a second apart."""
    return [
        Event(f"acme/{device}/sync/rows/batch", payload, NOW + (at + place) * 1_000_000)
        for place, payload in enumerate(payloads)
        for device in FLEET
    ]


def shown(platform: Platform, table: str = "row_changes") -> list[tuple[str, int]]:
    return sorted((row["device_id"], row["commit_seq"]) for row in platform.rows(table))


def landed(platform: Platform, events: list[Event]) -> None:
    """Land events as segments, one for each day."""
    landing, ids = Landing(platform.settings.landing), RisingIds()
    for _, of_day in groupby(events, key=lambda event: event.received_at_us // DAY_US):
        messages = [
            Message("", place, event.topic, event.payload, event.received_at_us)
            for place, event in enumerate(of_day)
        ]
        register(platform.gateway, [landing.write(ids.next(), messages)])


def drained(platform: Platform, events: list[Event] | None = None) -> None:
    """Drain, and release what is free, until nothing waits."""
    landed(platform, events or [])
    with platform.intake() as intake, intake.alone():
        while intake.drain() is not None or intake.release(DAY) is not None:
            pass


def test_a_fleet_with_new_firmware_waits_and_goes_on_with_one_approval(platform: Platform) -> None:
    gateway = platform.gateway
    for device in FLEET:
        word = ("register", "acme", device, "--id", device, "--project", "waterworks")
        platform.ilyama("devices", *word)
    drained(platform, sent(batch(change(1, row={"v": "x"}), schema=ONE)))
    wide = [
        batch(change(n, pk=n, row={"v": "x", "w": n / 2}), schema=OTHER, number=n) for n in (2, 3)
    ]
    drained(platform, sent(*wide, at=10))
    assert shown(platform) == [(device, 1) for device in FLEET]
    assert shown(platform, "staged_rows") == [(device, n) for device in FLEET for n in (2, 3)]
    asked = reviews(gateway)
    assert [(r.device_id, r.schema_hash) for r in asked] == [(d, OTHER_HASH) for d in FLEET]
    with gateway.transaction() as tx:
        tx.registries.ensure_keys({"site.flow": "metric"})
        tx.commit()

    told = json.loads(platform.ilyama("review", "show", str(asked[0].review_id), "--json"))
    assert told["evidence"]["diff"] == {"added": ["w"], "unbound": ["w"]}
    assert told["evidence"]["senders"]["count"] == 2
    assert told["evidence"]["staged"]["rows"] == 4
    trial = told["evidence"]["dry_run"]
    assert (trial["complete"], trial["result"]["would_materialize"]) == (True, 4)

    mapped = ("--column", "w=map:site.flow", "--column", "v=ignore")
    page = platform.ilyama("review", "show", str(asked[0].review_id), *mapped)
    told, command = page.splitlines()[-1].split(None, 1)
    assert told == "approve"
    assert shlex.split(command)[-6:] == ["--version", "1", *mapped]
    printed = platform.ilyama(*shlex.split(command)[1:])
    assert printed.splitlines() == [
        f"Review {asked[0].review_id} is approved, version 2.",
        "This is the approval of version 1, by column:",
        "column     v -> ignore",
        "column     w -> map:site.flow",
    ]
    assert {review.state for review in reviews(gateway)} == {"approved"}
    drained(platform)
    drained(platform, sent(batch(change(9, pk=9, row={"v": "y", "w": 4.5}), schema=OTHER), at=20))

    assert shown(platform) == [(device, n) for device in FLEET for n in (1, 2, 3, 9)]
    flows = {(row["owner_id"], row["value"]) for row in platform.rows("metric_datapoint")}
    assert flows == {(device, value) for device in FLEET for value in (1.0, 1.5, 4.5)}
    assert {row["key"] for row in platform.rows("metric_datapoint")} == {"site.flow"}
    assert len(platform.rows("state_datapoint")) == len(FLEET)
    with gateway.transaction() as tx:
        assert tx.backlog.free().lineages == 0


def test_a_dry_run_that_cannot_look_at_all_looks_at_the_oldest_of_every_device(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second device alone sends a value that its column cannot hold, and that at first."""
    gateway = platform.gateway
    register_devices(gateway, *FLEET, project="waterworks")
    drained(platform, sent(batch(change(1, row={"v": "x"}), schema=ONE)))
    for turn, value in enumerate(("?", 1.5, 2.5), 1):
        own = batch(*(change(5 * turn + n, row={"v": "x"}) for n in range(5)), schema=OTHER)
        misfit = batch(change(5 * turn, row={"v": "x", "w": value}), schema=OTHER)
        drained(platform, [sent(own, at=turn)[0], sent(misfit, at=turn)[1]])
    (review, _) = reviews(gateway)

    def trial() -> Trial:
        with gateway.transaction() as tx:
            return evidence_of(tx, review, platform.settings.warehouse).dry_run

    whole = trial()
    assert (whole.complete, whole.rows, whole.of_rows) == (True, 18, 18)
    monkeypatch.setattr(sampled_sums, "MOST_ROWS", 4)
    some = trial()
    assert (some.complete, some.rows, some.of_rows) == (False, 4, 18)
    assert (some.devices, some.of_devices) == (2, 2)
    assert some.result.values_quarantined == whole.result.values_quarantined == 1
    shown = platform.ilyama("review", "show", str(review.review_id))
    assert "dry run    of all: 18 rows would be shown" in shown


@pytest.mark.parametrize("drains", [1, 2])
def test_columns_that_are_announced_late_are_reviewed_as_what_they_are(
    platform: Platform, drains: int
) -> None:
    """The dry run reads rows as the release does: without columns that nobody had announced yet."""
    gateway, (device, *_) = platform.gateway, FLEET
    register_devices(gateway, device)
    needed = (SchemaColumn("v", Affinity.INTEGER, pk_ordinal=0, not_null=True),)
    sends = [
        event
        for event in sent(
            batch(change(1, row={"v": "x"}), schema=OTHER),
            batch(change(2, pk=2, row={"v": "x"}), number=2, schema=needed, announce=False),
            batch(change(3, pk=3, row={"v": "x"}), number=3, schema=needed),
        )
        if event.topic.startswith(f"acme/{device}/")
    ]
    for part in (sends,) if drains == 1 else (sends[:2], sends[2:]):
        drained(platform, part)

    (review,) = reviews(gateway)
    assert (review.schema_class, review.columns) == ("breaking", needed)
    diff = review.evidence["diff"]
    assert (diff["dropped"], diff["affinity_changed"]) == (["w"], ["v"])
    assert review.action_version == drains
    told = json.loads(platform.ilyama("review", "show", str(review.review_id), "--json"))
    trial = told["evidence"]["dry_run"]["result"]
    assert (trial["would_materialize"], trial["would_stay_staged"]) == (1, 1)

    reviewing(gateway).approve(act_on(review))
    drained(platform)

    assert shown(platform) == [(device, 1), (device, 2)]


def test_a_drain_that_dies_anywhere_asks_once(platform: Platform) -> None:
    register_devices(platform.gateway, *FLEET)
    landed(
        platform,
        sent(batch(change(1), schema=ONE), batch(change(2), schema=OTHER), batch(change(3))),
    )
    for point in ("decide.after", "seal.after", "close.before"):
        died = platform.try_ilyama("drain", CRASH_AT=point)
        assert died.returncode == CRASH_STATUS, f"{point}: {died.stderr}"
    drained(platform)

    assert len(reviews(platform.gateway)) == 2 * len(FLEET)
    assert paused(platform.gateway) == [*FLEET]


def test_what_was_refused_stays_staged_when_another_schema_is_approved(platform: Platform) -> None:
    gateway = platform.gateway
    register_devices(gateway, *FLEET)
    bad, good = columns(v="REAL"), OTHER
    drained(
        platform,
        sent(
            batch(change(1, row={"v": "x"}), schema=ONE),
            batch(change(2, row={"v": 1}), schema=bad),
            batch(change(3, row={"v": "x"}), schema=ONE),
            batch(change(4, row={"v": "x"}), schema=good),
        ),
    )
    desk = reviewing(gateway)
    for review in reviews(gateway):
        is_good = review.schema_hash == OTHER_HASH
        (desk.approve if is_good else desk.reject)(act_on(review))
    drained(platform)

    assert shown(platform) == [(device, n) for device in FLEET for n in (1, 3, 4)]
    assert paused(gateway) == []


def test_a_device_that_returns_after_an_abandoned_review_goes_on(platform: Platform) -> None:
    gateway = platform.gateway
    register_devices(gateway, *FLEET)
    drained(platform, sent(batch(change(1), schema=ONE), batch(change(2), schema=OTHER)))
    for review in reviews(gateway):
        reviewing(gateway).abandon(act_on(review))
    drained(platform, sent(batch(change(3), schema=ONE), at=10))

    assert shown(platform) == [(device, n) for device in FLEET for n in (1, 3)]
    assert paused(gateway) == []
    drained(platform, sent(batch(change(4), schema=OTHER), at=20))
    assert paused(gateway) == [*FLEET]
    assert len(reviews(gateway)) == 2 * len(FLEET)


def test_where_first_schemas_are_reviewed_nothing_is_shown_before(platform: Platform) -> None:
    gateway = platform.gateway
    register_devices(gateway, *FLEET, project="waterworks")
    platform.ilyama("policy", "--project", "waterworks", "--first-schema", "review")
    drained(platform, sent(batch(change(1, row={"v": "x"}), schema=ONE)))
    assert shown(platform) == []
    (first, _) = reviews(gateway)

    actions = mirrored(["v"]) | {"v": ColumnAction(Verb.IGNORE)}
    reviewing(gateway).approve(act_on(first), actions)
    drained(platform)

    assert shown(platform) == [(device, 1) for device in FLEET]
    assert platform.rows("state_datapoint") == []
    with gateway.transaction() as tx:
        (binding,) = tx.bindings.of([BindingScope("project", "waterworks")])
    assert (binding.approved, binding.actions) == (True, actions)


def test_first_schemas_that_disagree_in_one_drain_are_not_both_accepted(platform: Platform) -> None:
    register_devices(platform.gateway, *FLEET, project="waterworks")
    (first, _), (_, second) = (
        sent(batch(change(1, row={"v": value}), schema=columns(v=affinity)))
        for affinity, value in (("TEXT", "x"), ("REAL", 1.5))
    )
    drained(platform, [first, second])

    assert shown(platform) == [(FLEET[0], 1)]
    assert shown(platform, "staged_rows") == [(FLEET[1], 1)]
    (review,) = reviews(platform.gateway)
    assert (review.device_id, review.schema_class) == (FLEET[1], "breaking")
    assert review.evidence["diff"]["unlike_device_table"] == ["v"]


def test_a_replay_goes_by_what_was_decided_of_a_column_then(platform: Platform) -> None:
    gateway = platform.gateway
    register_devices(gateway, *FLEET, project="waterworks")
    drained(platform, sent(batch(change(1, row={"v": "x"}), schema=ONE)))
    row = {"v": "x", "w": 0.5}
    drained(platform, sent(batch(change(2, row=row), schema=OTHER, number=2), at=10))
    first = reviews(gateway)[0]
    defer = mirrored(["v", "w"]) | {"w": ColumnAction(Verb.DEFER)}
    reviewing(gateway).approve(act_on(first), defer)
    drained(platform)
    assert platform.rows("metric_datapoint") == []

    platform.ilyama("review", "decide", str(first.review_id), "--column", "w=mirror")
    drained(platform, sent(batch(change(3, row=row), schema=OTHER, number=3), at=20))
    with platform.intake() as intake, intake.alone():
        report = intake.replay(DAY)

    points = [(row["owner_id"], row["key"]) for row in platform.rows("metric_datapoint")]
    assert sorted(points) == [(device, f"{TABLE}.w") for device in FLEET]
    assert {file.table for file in report.seal.files} == {"batch_ledger"}


def test_streams_of_changing_schemas_equal_the_oracle(platform: Platform) -> None:
    events = generate_changes(200, batches=60)
    for part in (events[:25], events[25:]):
        drained(platform, part)
    expected = expected_tables(events)
    tables = [table for table in TABLES if table != "current_value"]
    stored = {table: platform.rows(table) for table in tables}
    assert_equals_oracle(stored, expected)


def test_a_schema_that_the_state_has_forgotten_is_approved_with_its_columns(
    platform: Platform,
) -> None:
    gateway, count = platform.gateway, MOST_UNACCEPTED + 4
    register_devices(gateway, *FLEET)
    schemas = [columns(v="TEXT", **{f"w{n}": "REAL"}) for n in range(count)]
    rows = [change(n + 2, row={"v": "x", f"w{n}": "not a number"}) for n in range(count)]
    wide = [batch(row, schema=schemas[n], number=n + 2) for n, row in enumerate(rows)]
    drained(platform, sent(batch(change(1, row={"v": "x"}), schema=ONE), *wide)[::2])
    with gateway.transaction() as tx:
        state = decode_state(tx.device_states.of(FLEET)[FLEET[0]].encode())
    first, *others = reviews(gateway)
    assert first.schema_hash == schema_hash(TABLE, schemas[0])
    assert first.schema_hash not in state.lineages[TABLE].schemas

    for review in others:
        reviewing(gateway).abandon(act_on(review))
    reviewing(gateway).approve(act_on(first))
    drained(platform)

    assert shown(platform) == [(FLEET[0], 1), (FLEET[0], 2)]
    quarantined = [(row["key"], row["reason"]) for row in platform.rows("quarantined_datapoints")]
    assert quarantined == [(f"{TABLE}.w0", "kind_mismatch")]
