"""How much is staged is kept beside the sums, so that nobody has to add up all of them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import pytest
from alembic import command
from sqlalchemy import Connection, create_engine, text

from ilyama_protocol.intake.lineage_rulings import PauseReason, StagingReason
from ilyama_resources.postgres import Gateway, Transaction
from ilyama_resources.postgres.lineages import LineageFilter
from ilyama_resources.postgres.staged_backlog import FreeRows, StagedSum
from tests.databases import migrate
from tests.governed import HASH, OTHER, TABLE, act_on, asked, queue, register, reviewing, reviews
from tests.platform import Platform
from tests.waiting import eventually, somebody_waits

TOTALS = text("SELECT * FROM staged_total ORDER BY 1, 2, 3, 4")
ADDED_UP = text(
    """
    SELECT device_id, source_table, staging_reason, schema_hash,
           count(*), sum(rows), sum(bytes),
           count(*) FILTER (WHERE ready),
           coalesce(sum(rows) FILTER (WHERE ready), 0),
           coalesce(sum(bytes) FILTER (WHERE ready), 0)
    FROM (
        SELECT *, NOT missing AND (
            retry OR staging_reason IN ('lineage_paused', 'schema_review')
        ) AS ready
        FROM staged_backlog WHERE released_in IS NULL
    ) AS waiting
    GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
    """
)
FREE = FreeRows(lineages=1, rows=2, bytes=30)


@pytest.fixture
def gateway(platform_without_spark: Platform) -> Gateway:
    return platform_without_spark.gateway


@contextmanager
def records(gateway: Gateway) -> Iterator[Connection]:
    engine = create_engine(gateway.url)
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def of(device_id: str, reason: StagingReason, drain_id: int, schema: str = HASH) -> StagedSum:
    return StagedSum(device_id, TABLE, reason.value, schema, drain_id, 2, 30)


WAITS = [of("dev-1", StagingReason.SCHEMA_REVIEW, drain, h) for drain in (1, 2) for h in "ab"]
PAUSED = [of("dev-2", StagingReason.LINEAGE_PAUSED, drain) for drain in (1, 2, 3)]
FAILED = [of("dev-2", StagingReason.MATERIALIZATION_FAILED, drain) for drain in (1, 2)]
BROKEN = [of("", StagingReason.ENGINE_ERROR, 1, "")]


def totals(gateway: Gateway) -> int:
    """How many totals there are; they are what the sums add up to."""
    with records(gateway) as connection:
        kept = connection.execute(TOTALS).all()
        assert kept == connection.execute(ADDED_UP).all()
    return len(kept)


def test_totals_follow_whatever_becomes_of_sums(gateway: Gateway) -> None:
    steps = [
        (4, lambda tx: tx.backlog.add([*WAITS[:2], *PAUSED[:2], *FAILED])),
        (5, lambda tx: tx.backlog.add([*WAITS[2:], *PAUSED[2:], *BROKEN])),
        (5, lambda tx: tx.backlog.release([PAUSED[0], FAILED[0]], drain_id=4)),
        (5, lambda tx: tx.backlog.release([PAUSED[0]], drain_id=5)),
        (5, lambda tx: tx.backlog.miss([PAUSED[1], WAITS[0]])),
        (5, lambda tx: tx.backlog.release([PAUSED[1]], drain_id=6)),
        (5, lambda tx: tx.backlog.retry(StagingReason.MATERIALIZATION_FAILED, ("dev-2", TABLE))),
        (5, lambda tx: tx.backlog.retry(StagingReason.ENGINE_ERROR)),
        (4, lambda tx: tx.backlog.release(PAUSED, drain_id=7)),
        (2, lambda tx: tx.backlog.release([*FAILED, *BROKEN], drain_id=8)),
        (3, lambda tx: tx.backlog.add([of("dev-2", StagingReason.LINEAGE_PAUSED, 9)])),
    ]
    for left, step in steps:
        with gateway.transaction() as tx:
            step(tx)
            tx.commit()
        assert totals(gateway) == left


def test_a_total_without_sums_is_no_reason_for_a_release(gateway: Gateway) -> None:
    with gateway.transaction() as tx:
        tx.backlog.add(PAUSED)
        tx.commit()
    with gateway.transaction() as tx:
        assert tx.backlog.can_release()
    with records(gateway) as connection:
        connection.execute(text("DELETE FROM staged_backlog"))
        connection.commit()
    with gateway.transaction() as tx:
        assert tx.backlog.free().lineages == 1
        assert not tx.backlog.can_release()


@contextmanager
def without_sums(gateway: Gateway) -> Iterator[Transaction]:
    """Who asks for the sums now is refused."""
    impatient = Gateway(f"{gateway.url}?options=-clock_timeout%3D100ms")
    with records(gateway) as other, closing(impatient), impatient.transaction() as tx:
        other.execute(text("LOCK TABLE staged_backlog IN ACCESS EXCLUSIVE MODE"))
        yield tx


def test_how_much_is_staged_is_told_without_a_look_at_the_sums(gateway: Gateway) -> None:
    register(gateway, "dev-1", "dev-2", project="a")
    queue(gateway, asked("dev-1"), asked("dev-1", OTHER))
    held = of("dev-1", StagingReason.SCHEMA_REVIEW, 1)
    with gateway.transaction() as tx:
        tx.backlog.add([held, held._replace(drain_id=2), PAUSED[0]])
        tx.commit()

    with without_sums(gateway) as tx:
        assert tx.backlog.free() == FREE
        assert tx.backlog.tables_of(["dev-1", "dev-2"]) == {"dev-2": [TABLE]}
        assert tx.backlog.sizes([("dev-1", TABLE)]) == [("dev-1", TABLE, 4, 60)]
        assert tx.backlog.of_schema(TABLE, HASH, device_ids=["dev-1"]) == [("dev-1", TABLE, 4, 60)]
        assert [schema.staged_rows for schema in tx.open_reviews.schemas(limit=2)] == [4, 0]
        assert [entry.staged_rows for entry in tx.lineages.page(LineageFilter(), limit=2)] == [4, 2]
        assert tx.review_queue.waiting() == 0


def test_what_is_free_follows_approvals_and_pauses(gateway: Gateway) -> None:
    register(gateway, "dev-1", "dev-2", project="a")
    queue(gateway, asked("dev-1"))
    with gateway.transaction() as tx:
        tx.backlog.add([of("dev-1", StagingReason.SCHEMA_REVIEW, 1), PAUSED[0]])
        tx.pauses.add([("dev-2", TABLE)], PauseReason.OPERATOR)
        tx.commit()

    def free() -> FreeRows:
        with gateway.transaction() as tx:
            return tx.backlog.free()

    assert free() == FreeRows(0, 0, 0)
    reviewing(gateway).approve(act_on(reviews(gateway)[0]))
    assert free() == FREE
    with gateway.transaction() as tx:
        tx.pauses.clear([("dev-2", TABLE)], PauseReason.OPERATOR)
        tx.commit()
    assert free() == FreeRows(2, 4, 60)


def test_two_who_change_what_is_staged_do_not_wait_for_each_other_for_ever(
    gateway: Gateway,
) -> None:
    def add_elsewhere() -> None:
        with gateway.transaction() as tx:
            tx.backlog.add([PAUSED[1]])
            tx.backlog.add([WAITS[2]])
            tx.commit()

    with ThreadPoolExecutor(1) as side:
        with gateway.transaction() as tx:
            tx.backlog.add([WAITS[0]])
            done = side.submit(add_elsewhere)
            assert eventually(lambda: somebody_waits(gateway))
            tx.backlog.add([PAUSED[0]])
            tx.commit()
        done.result(timeout=60)

    assert totals(gateway) == 2


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_what_waits_is_read_in_portions_drain_after_drain(gateway: Gateway, limit: int) -> None:
    with gateway.transaction() as tx:
        tx.backlog.add([*WAITS, *PAUSED, *BROKEN])
        tx.backlog.release([PAUSED[1]], drain_id=4)
        tx.commit()
        found: list[StagedSum] = []
        while portion := tx.backlog.waiting_after(found[-1] if found else None, limit=limit):
            assert len(portion) <= limit
            found += portion

    waiting = sorted({*WAITS, *PAUSED, *BROKEN} - {PAUSED[1]}, key=lambda one: (one[4], one))
    assert found == waiting


def test_of_every_device_the_first_sums_are_found_until_they_have_rows_enough(
    gateway: Gateway,
) -> None:
    late = [of("dev-1", StagingReason.SCHEMA_REVIEW, drain) for drain in (8, 7, 6)]
    others = [of("dev-2", StagingReason.SCHEMA_REVIEW, drain) for drain in (3, 9)]
    paused = of("dev-2", StagingReason.LINEAGE_PAUSED, 4)
    elsewhere = [late[0]._replace(schema_hash=OTHER), late[0]._replace(device_id="dev-3")]
    with gateway.transaction() as tx:
        tx.backlog.add([*late, *others, paused, *elsewhere])
        tx.backlog.release([late[2]], drain_id=10)
        tx.commit()

    def first(rows: int, most: int = 9) -> list[int]:
        with gateway.transaction() as tx:
            found = tx.backlog.oldest_of_schema(
                TABLE, HASH, device_ids=["dev-1", "dev-2"], rows=rows, most=most
            )
        return [one.drain_id for one in found]

    assert first(2) == [3, 4, 7]
    assert first(3) == first(4) == [3, 4, 7, 8, 9]
    assert first(4, most=3) == [3, 4, 7]


def test_totals_are_made_of_what_older_builds_had_staged(gateway: Gateway) -> None:
    with gateway.transaction() as tx:
        tx.backlog.add([*WAITS, *PAUSED, *FAILED, *BROKEN])
        tx.backlog.release([PAUSED[0], WAITS[0]], drain_id=4)
        tx.backlog.miss([PAUSED[1]])
        tx.backlog.retry(StagingReason.MATERIALIZATION_FAILED)
        tx.backlog.miss([PAUSED[2]])
        tx.commit()
    with records(gateway) as connection:
        before = connection.execute(TOTALS).all()
        connection.rollback()
        migrate(connection, command.downgrade, "0025")
        migrate(connection, command.upgrade, "head")
        assert connection.execute(TOTALS).all() == before
    assert totals(gateway) == len(before) == 5
