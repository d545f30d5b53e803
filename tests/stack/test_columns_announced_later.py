"""Columns that are announced after their review was opened: whoever decides has seen them."""

import pytest
from alembic import command
from sqlalchemy import create_engine

from ilyama_protocol.governance.bindings import MIRRORED, mirrored
from ilyama_protocol.governance.classification import SchemaClass, SchemaDiff
from ilyama_protocol.governance.reviews import ReviewAsked
from ilyama_protocol.intake.state import BoundSchema, DeviceState, LineageState, encode_state
from ilyama_resources.postgres import Gateway
from ilyama_service.reviewing import ReviewConflict, Reviewing, UnfitActions
from tests.databases import migrate
from tests.governed import (
    CREATING,
    HASH,
    OTHER,
    SCHEMA,
    TABLE,
    act_on,
    asked,
    queue,
    register,
    reviewing,
    reviews,
)
from tests.platform import Platform

NAMES = [column.name for column in SCHEMA]


@pytest.fixture
def gateway(platform_without_spark: Platform) -> Gateway:
    return platform_without_spark.gateway


def unannounced(device_id: str, **others: object) -> ReviewAsked:
    """What a drain asks about a schema of which it knows the hash."""
    ambiguous: dict[str, object] = {"schema_class": SchemaClass.AMBIGUOUS, "diff": SchemaDiff()}
    unknown: dict[str, object] = {"columns": None, "seen": ("id",)}
    return asked(device_id, HASH, **ambiguous | unknown | others)


def announce(gateway: Gateway, device_id: str) -> None:
    """Let the columns of a schema be part of the state of a device."""
    state = DeviceState(lineages={TABLE: LineageState(schemas={HASH: BoundSchema(5, SCHEMA)})})
    with gateway.transaction() as tx:
        tx.device_states.advance([(device_id, encode_state(state).decode())], drain_id=8)
        tx.commit()


def test_a_review_takes_up_columns_that_are_announced_after_it_was_opened(gateway: Gateway) -> None:
    register(gateway, "dev-1")
    queue(gateway, unannounced("dev-1"))
    (before,) = reviews(gateway)
    assert queue(gateway, asked("dev-1", seen=("id", "mode")), drain_id=8) == 0

    (review,) = reviews(gateway)
    assert (before.schema_class, before.evidence["diff"], before.action_version) == (
        "ambiguous",
        {},
        1,
    )
    assert (review.schema_class, review.evidence["diff"], review.action_version) == (
        "breaking",
        {"dropped": ["old"]},
        2,
    )
    assert (review.columns, review.seen_columns) == (SCHEMA, ("id", "mode"))
    assert (review.first_received_at, review.opened_by) == (1_000, 7)
    with pytest.raises(ReviewConflict, match="look at it again"):
        reviewing(gateway).approve(act_on(before))
    with pytest.raises(UnfitActions):
        reviewing(gateway).approve(act_on(review), {"id": MIRRORED})
    assert reviewing(gateway).approve(act_on(review)).actions == mirrored(NAMES)


def test_a_review_that_knows_its_columns_stays_as_it_is(gateway: Gateway) -> None:
    register(gateway, "dev-1")
    queue(gateway, asked("dev-1"))
    (before,) = reviews(gateway)
    queue(gateway, unannounced("dev-1", seen=("other",)), drain_id=8)
    queue(gateway, asked("dev-1", schema_class=SchemaClass.UNKNOWN), drain_id=9)

    assert reviews(gateway) == [before]


def test_a_fleet_announces_its_columns_later_in_one_go(gateway: Gateway) -> None:
    fleet = [f"dev-{number:04}" for number in range(3_000)]
    register(gateway, *fleet, project="waterworks")
    queue(gateway, *map(unannounced, fleet))

    queue(gateway, *map(asked, fleet[1:]), drain_id=8)

    found = {r.device_id: (r.schema_class, r.columns, r.action_version) for r in reviews(gateway)}
    assert found.pop(fleet[0]) == ("ambiguous", None, 1)
    assert {*found.values()} == {("breaking", SCHEMA, 2)}


def test_a_schema_that_waits_for_room_takes_up_its_columns_too(gateway: Gateway) -> None:
    register(gateway, "dev-1")
    queue(gateway, asked("dev-1", OTHER, received_at=1), most=1)
    queue(gateway, unannounced("dev-1", received_at=2), most=1)
    queue(gateway, asked("dev-1", received_at=3), most=1)

    reviewing(gateway, most=1).abandon(act_on(reviews(gateway)[0]))

    review = reviews(gateway)[-1]
    assert (review.schema_class, review.columns, review.action_version) == ("breaking", SCHEMA, 1)


def test_what_another_device_announces_changes_no_open_review(gateway: Gateway) -> None:
    register(gateway, "dev-1", "dev-2")
    queue(gateway, unannounced("dev-1"))
    announce(gateway, "dev-2")

    (review,) = reviews(gateway)
    assert (review.columns, review.column_names) == (None, ("id",))


def test_a_schema_is_approved_by_the_review_that_shows_its_columns(gateway: Gateway) -> None:
    register(gateway, "dev-1", "dev-2", project="waterworks")
    register(gateway, "dev-3", project="elsewhere")
    queue(gateway, unannounced("dev-1"), asked("dev-2"), unannounced("dev-3"))
    blind, telling, alone = reviews(gateway)
    desk = reviewing(gateway)

    told = f"review {telling.review_id} shows the columns of this schema: approve that one"
    with pytest.raises(ReviewConflict, match=told):
        desk.approve(act_on(blind), {"id": MIRRORED})
    with gateway.transaction() as tx, pytest.raises(ReviewConflict, match=told):
        Reviewing(CREATING).refuse_approval(tx, blind, None)

    assert [review.state for review in reviews(gateway)] == ["queued"] * 3
    assert desk.approve(act_on(telling)).actions == mirrored(NAMES)
    assert reviews(gateway)[0].actions == mirrored(NAMES)
    assert desk.approve(act_on(alone)).actions == mirrored(["id"])


def test_a_review_without_columns_is_approved_when_no_open_one_shows_them(
    gateway: Gateway,
) -> None:
    register(gateway, "dev-1", "dev-2", project="waterworks")
    queue(gateway, unannounced("dev-1"), asked("dev-2"))
    blind, telling = reviews(gateway)
    desk = reviewing(gateway)
    desk.reject(act_on(telling))

    assert desk.approve(act_on(blind)).actions == mirrored(["id"])
    assert reviews(gateway)[1].state == "rejected"


def test_columns_that_are_announced_after_the_approval_can_be_decided(gateway: Gateway) -> None:
    register(gateway, "dev-1")
    queue(gateway, unannounced("dev-1"))
    desk = reviewing(gateway)
    approved = desk.approve(act_on(reviews(gateway)[0]))
    announce(gateway, "dev-1")

    (review,) = reviews(gateway)
    assert (review.columns, review.actions) == (SCHEMA, mirrored(["id"]))
    with pytest.raises(UnfitActions):
        desk.decide(act_on(approved), {"nothing": MIRRORED})
    assert desk.decide(act_on(approved), {"flow": MIRRORED}).actions == mirrored(["id", "flow"])


def test_a_review_that_is_opened_again_shows_the_columns_that_the_closed_one_did(
    gateway: Gateway,
) -> None:
    register(gateway, "dev-1")
    queue(gateway, unannounced("dev-1"))
    desk = reviewing(gateway)
    rejected = desk.reject(act_on(reviews(gateway)[0]))
    announce(gateway, "dev-1")

    again = desk.reopen(act_on(rejected))

    assert (again.state, again.columns, again.column_names) == ("queued", SCHEMA, tuple(NAMES))
    assert desk.approve(act_on(again)).actions == mirrored(NAMES)


def test_reviews_of_older_builds_are_looked_at_again_when_columns_came_in(gateway: Gateway) -> None:
    """They showed columns that were announced later; who approved them had seen no comparison."""
    register(gateway, "dev-1", "dev-2", "dev-3")
    nothing_known = {"schema_class": SchemaClass.UNKNOWN, "seen": ()}
    queue(gateway, unannounced("dev-1"), unannounced("dev-2", **nothing_known))
    queue(gateway, asked("dev-3", OTHER))
    announce(gateway, "dev-1")
    engine = create_engine(gateway.url)
    with engine.connect() as records:
        migrate(records, command.downgrade, "0021")
        migrate(records, command.upgrade, "head")
    engine.dispose()

    found = [(r.columns, r.column_names, r.action_version) for r in reviews(gateway)]
    assert found == [(None, ("id",), 2), (SCHEMA, tuple(NAMES), 1), (None, ("id", "mode"), 1)]
