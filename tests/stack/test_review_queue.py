"""A device that sends ever new schemas fills no list: further ones wait until there is room."""

import pytest
from sqlalchemy import create_engine, text

from ilyama_protocol.governance.bindings import MIRRORED, mirrored
from ilyama_protocol.governance.reviews import OPEN
from ilyama_protocol.intake.state import BoundSchema
from ilyama_resources.postgres import Gateway
from ilyama_resources.postgres.governance.bindings import BindingScope
from ilyama_resources.postgres.governance.review_queue import MOST_WAITING, ReviewQueue
from ilyama_resources.postgres.governance.reviews import Review
from ilyama_resources.postgres.governance.shelved_schemas import ShelvedSchema
from ilyama_resources.postgres.staged_backlog import StagedSum
from ilyama_service.review_evidence import evidence_of
from ilyama_service.reviewing import ReviewConflict
from tests.governed import (
    HASH,
    OTHER,
    SCHEMA,
    TABLE,
    act_on,
    asked,
    paused,
    queue,
    register,
    reviewing,
    reviews,
)
from tests.platform import Platform

HASHES = [f"{number:064x}" for number in range(60)]
MOST = 5


@pytest.fixture
def gateway(platform_without_spark: Platform) -> Gateway:
    gateway = platform_without_spark.gateway
    register(gateway, "dev-1")
    return gateway


def ask(gateway: Gateway, *numbers: int, device: str = "dev-1") -> int:
    """Let a drain ask about schemas by their numbers, in the order in which they came."""
    questions = [asked(device, HASHES[number], received_at=number) for number in numbers]
    return queue(gateway, *questions, most=MOST)


def open_reviews(gateway: Gateway) -> list[Review]:
    return [review for review in reviews(gateway) if review.state in OPEN]


def open_schemas(gateway: Gateway) -> list[int]:
    return [HASHES.index(review.schema_hash) for review in open_reviews(gateway)]


def waiting(gateway: Gateway, device: str | None = None) -> int:
    with gateway.transaction() as tx:
        return tx.review_queue.waiting(None if device is None else (device, TABLE))


def test_of_ever_new_hashes_so_many_are_reviewed_and_the_others_wait(gateway: Gateway) -> None:
    opened = [ask(gateway, *range(first, first + 3)) for first in range(0, 60, 3)]

    assert opened == [3, 2, *[0] * 18]
    assert open_schemas(gateway) == [0, 1, 2, 3, 4]
    assert waiting(gateway) == 55
    assert paused(gateway) == ["dev-1"]


def test_where_the_drains_are_cut_makes_no_difference(gateway: Gateway) -> None:
    register(gateway, "dev-2")
    ask(gateway, *range(12))
    for number in range(12):
        ask(gateway, number, device="dev-2")

    found = [(review.device_id, review.schema_hash) for review in open_reviews(gateway)]
    assert sorted(found) == [(d, HASHES[n]) for d in ("dev-1", "dev-2") for n in range(MOST)]


def test_a_schema_that_waits_is_not_counted_twice(gateway: Gateway) -> None:
    ask(gateway, *range(10))
    ask(gateway, *range(10), *range(10))

    assert waiting(gateway, "dev-1") == 5
    assert waiting(gateway, "dev-2") == 0


@pytest.mark.parametrize("verb", ["approve", "reject", "abandon"])
def test_a_decision_makes_room_for_the_oldest_that_waits(gateway: Gateway, verb: str) -> None:
    ask(gateway, *range(8))
    desk = reviewing(gateway, most=MOST)

    getattr(desk, verb)(act_on(open_reviews(gateway)[2]))

    assert open_schemas(gateway) == [0, 1, 3, 4, 5]
    assert waiting(gateway) == 2
    assert paused(gateway) == ["dev-1"]


def test_when_everything_is_decided_the_lineage_goes_on(gateway: Gateway) -> None:
    ask(gateway, *range(12))
    desk = reviewing(gateway, most=MOST)
    while found := open_reviews(gateway):
        assert paused(gateway) == ["dev-1"]
        desk.approve(act_on(found[0]))

    assert len(reviews(gateway)) == 12
    assert (waiting(gateway), paused(gateway)) == (0, [])


def test_one_lineage_leaves_room_for_others(gateway: Gateway) -> None:
    register(gateway, "dev-2")
    ask(gateway, *range(20))

    assert ask(gateway, 0, device="dev-2") == 1


def test_what_was_approved_in_the_project_meanwhile_waits_no_longer(gateway: Gateway) -> None:
    register(gateway, "a-1", "a-2", project="a")
    ask(gateway, *range(7), device="a-1")
    ask(gateway, 6, device="a-2")
    desk = reviewing(gateway, most=MOST)
    (other,) = [review for review in open_reviews(gateway) if review.device_id == "a-2"]
    desk.approve(act_on(other))

    desk.abandon(act_on(open_reviews(gateway)[0]))

    own = [HASHES.index(r.schema_hash) for r in open_reviews(gateway) if r.device_id == "a-1"]
    assert (own, waiting(gateway)) == ([1, 2, 3, 4, 5], 0)


def test_a_schema_that_waited_keeps_what_was_known_of_it(gateway: Gateway) -> None:
    ask(gateway, *range(MOST))
    queue(gateway, asked("dev-1", HASH, received_at=99), drain_id=12, most=MOST)
    desk = reviewing(gateway, most=MOST)
    desk.abandon(act_on(open_reviews(gateway)[0]))

    last = open_reviews(gateway)[-1]
    assert (last.schema_hash, last.opened_by, last.first_received_at) == (HASH, 12, 99)
    assert (last.evidence["diff"], last.columns is None) == ({"dropped": ["old"]}, False)


def test_the_evidence_tells_how_many_wait_behind_a_review(
    platform_without_spark: Platform, gateway: Gateway
) -> None:
    ask(gateway, *range(9))
    warehouse = platform_without_spark.settings.warehouse

    with gateway.transaction() as tx:
        assert evidence_of(tx, open_reviews(gateway)[0], warehouse).waiting == 4


def stage(gateway: Gateway, schema_hash: str, *, drain_id: int, table: str = TABLE) -> None:
    """Let a drain have set a row aside for a review."""
    staged = StagedSum("dev-1", table, "schema_review", schema_hash, drain_id, 1, 100)
    with gateway.transaction() as tx:
        tx.backlog.add([staged])
        tx.commit()


def questions(gateway: Gateway) -> int:
    engine = create_engine(gateway.url)
    with engine.connect() as connection:
        found = connection.scalar(text("SELECT count(*) FROM schema_question"))
    engine.dispose()
    return found or 0


def test_of_questions_too_only_so_many_are_kept_and_the_rest_is_counted(gateway: Gateway) -> None:
    for number in range(20):
        stage(gateway, HASHES[number], drain_id=number)
        with gateway.transaction() as tx:
            asking = [asked("dev-1", HASHES[number], received_at=number)]
            tx.review_queue.add(asking, drain_id=number, most=MOST, waiting=4)
            tx.commit()

    assert open_schemas(gateway) == [0, 1, 2, 3, 4]
    assert (questions(gateway), waiting(gateway)) == (4, 15)
    assert (waiting(gateway, "dev-1"), waiting(gateway, "dev-2")) == (15, 0)


def test_a_drain_that_asks_too_much_at_once_keeps_what_came_first(gateway: Gateway) -> None:
    asking = [asked("dev-1", f"{n:064x}", received_at=n) for n in range(MOST_WAITING + 50)]
    queue(gateway, *asking[::-1], most=MOST)

    assert open_schemas(gateway) == [0, 1, 2, 3, 4]
    assert questions(gateway) == MOST_WAITING - MOST


def test_what_nobody_was_asked_about_is_asked_when_there_is_room(gateway: Gateway) -> None:
    for number in range(MOST + 2):
        stage(gateway, HASHES[number], drain_id=number)
    ask(gateway, *range(MOST))
    desk = reviewing(gateway, most=MOST)
    assert waiting(gateway) == 2

    desk.reject(act_on(open_reviews(gateway)[0]))
    desk.abandon(act_on(open_reviews(gateway)[0]))

    last = open_reviews(gateway)[-1]
    assert open_schemas(gateway) == [2, 3, 4, 5, 6]
    assert (last.schema_class, last.opened_by, last.columns) == ("unknown", MOST + 1, None)
    assert waiting(gateway) == 0


def test_each_open_schema_counts_the_rows_that_wait_with_itself(gateway: Gateway) -> None:
    queue(gateway, asked("dev-1"), asked("dev-1", OTHER, received_at=2_000))
    for drain_id, schema_hash in enumerate((HASH, HASH, HASH, OTHER)):
        stage(gateway, schema_hash, drain_id=drain_id)

    with gateway.transaction() as tx:
        waiting_with = {s.schema_hash: s.staged_rows for s in tx.open_reviews.schemas(limit=5)}
    assert waiting_with == {HASH: 3, OTHER: 1}


def test_what_is_asked_late_has_the_columns_that_were_announced(gateway: Gateway) -> None:
    """They may lie on the shelf, and the next batch of the schema need not tell them."""
    stage(gateway, HASH, drain_id=1)
    ask(gateway, *range(MOST))
    with gateway.transaction() as tx:
        tx.shelved_schemas.add([ShelvedSchema("dev-1", TABLE, HASH, BoundSchema(8, SCHEMA))])
        tx.commit()
    reviewing(gateway, most=MOST).reject(act_on(open_reviews(gateway)[0]))

    last = open_reviews(gateway)[-1]
    assert (last.columns, last.schema_class, last.first_received_at) == (SCHEMA, "unknown", 8)


def test_what_is_asked_late_has_no_columns_of_another_table(gateway: Gateway) -> None:
    """Somebody announced them under the same hash, which covers the name of their table."""
    stage(gateway, HASH, drain_id=1, table="valves")
    first = asked("dev-1", OTHER, source_table="valves")
    queue(gateway, first, most=1)
    with gateway.transaction() as tx:
        tx.shelved_schemas.add([ShelvedSchema("dev-2", TABLE, HASH, BoundSchema(8, SCHEMA))])
        tx.commit()
    reviewing(gateway, most=1).reject(act_on(open_reviews(gateway)[0]))

    (last,) = open_reviews(gateway)
    assert (last.source_table, last.schema_hash, last.columns) == ("valves", HASH, None)


def test_a_review_of_an_unannounced_schema_shows_what_later_batches_had(gateway: Gateway) -> None:
    queue(gateway, asked("dev-1", OTHER, seen=("a",)))
    queue(gateway, asked("dev-1", OTHER, seen=("a", "secret")))
    queue(gateway, asked("dev-1", OTHER, seen=("secret",)))

    (review,) = open_reviews(gateway)
    assert (review.column_names, review.action_version) == (("a", "secret"), 2)


def test_who_has_not_seen_the_new_columns_cannot_approve_them(gateway: Gateway) -> None:
    queue(gateway, asked("dev-1", OTHER, seen=("a",)))
    looked_at = act_on(open_reviews(gateway)[0])
    queue(gateway, asked("dev-1", OTHER, seen=("secret",)))

    with pytest.raises(ReviewConflict, match="look at it again"):
        reviewing(gateway).approve(looked_at)


def test_a_schema_that_waits_for_room_collects_columns_too(gateway: Gateway) -> None:
    ask(gateway, *range(MOST))
    for seen in (("a",), ("b",)):
        queue(gateway, asked("dev-1", OTHER, seen=seen, received_at=99), most=MOST)
    reviewing(gateway, most=MOST).abandon(act_on(open_reviews(gateway)[0]))

    assert open_reviews(gateway)[-1].column_names == ("a", "b")


def test_what_is_approved_of_an_unannounced_schema_names_its_columns(gateway: Gateway) -> None:
    queue(gateway, asked("dev-1", OTHER, seen=("a",)))
    desk = reviewing(gateway)
    approved = desk.approve(act_on(open_reviews(gateway)[0]))
    scope = BindingScope.of("dev-1", None)
    with gateway.transaction() as tx:
        (before,) = tx.bindings.of([scope])
    desk.decide(act_on(approved), {"secret": MIRRORED})
    with gateway.transaction() as tx:
        (after,) = tx.bindings.of([scope])

    assert before.actions == mirrored("a")
    assert after.actions == mirrored(("a", "secret"))


def test_a_fleet_that_asks_about_one_schema_at_once_is_looked_at_device_by_device(
    gateway: Gateway,
) -> None:
    many = 2_000
    engine = create_engine(gateway.url)
    with engine.connect() as connection:
        opened = ReviewQueue(connection).add([asked(f"dev-{n}") for n in range(many)], drain_id=7)
        seen = connection.scalar(text(_ROWS_SEEN))
    engine.dispose()

    assert opened == many
    assert seen is not None
    assert seen < 20 * many


_ROWS_SEEN = """
    SELECT sum(seq_tup_read + idx_tup_fetch) FROM pg_stat_xact_user_tables
    WHERE relname IN ('schema_question', 'schema_review')
"""
