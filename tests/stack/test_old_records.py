"""The books of days past do not grow with the number of their drains."""

from datetime import UTC, date, datetime, timedelta

from sqlalchemy import create_engine, text

from ilyama_assets.compaction import FORGOTTEN_AFTER, compact_records
from ilyama_resources.postgres import Gateway
from ilyama_resources.postgres.derived_runs import DerivedRun
from ilyama_resources.postgres.ledger import LedgerBalance, LedgerFilter
from tests.api_records import DAY, DEVICES, add_drain, fill, total_of
from tests.platform import Platform
from tests.streams import generate


def test_sums_stay_the_same_when_their_lines_are_rolled_up(platform: Platform) -> None:
    platform.import_events(generate(41, batches=60), ILYAMA_SEGMENT_MAX_BYTES="8000")
    with platform.intake(drain_max_bytes=1) as intake, intake.alone():
        drains = len([*iter(intake.drain, None)])
    assert drains > 10
    everything = LedgerFilter()
    with platform.gateway.transaction() as tx:
        sums = tx.ledger.page(everything, after=None, limit=1_000)
        balance = tx.ledger.balance(everything)
        assert tx.ledger.roll_up(before=date.max) > 0
        assert tx.segments.forget(drained_before=datetime.now(UTC) + timedelta(days=1)) == drains
        assert tx.ledger.page(everything, after=None, limit=1_000) == sums
        assert tx.ledger.balance(everything) == balance
        assert tx.ledger.roll_up(before=date.max) == 0
    assert balance.messages_received == 60


KEEP = timedelta(days=14)


def drains_left(gateway: Gateway) -> list[int]:
    with gateway.transaction() as tx:
        return [drain.drain_id for drain in tx.drains.page(limit=100)]


def balances(gateway: Gateway) -> list[LedgerBalance]:
    with gateway.transaction() as tx:
        return [tx.ledger.balance(LedgerFilter(day=day)) for day in (None, DAY)]


def test_drains_go_in_time_and_the_books_still_balance(platform_without_spark: Platform) -> None:
    gateway, now = platform_without_spark.gateway, datetime.now(UTC)
    fill(gateway)
    before = balances(gateway)

    compact_records(gateway, now=now + KEEP, keep=KEEP)
    assert drains_left(gateway) == [4, 3, 2, 1]
    compact_records(gateway, now=now + KEEP * 2, keep=KEEP)
    assert drains_left(gateway) == [4, 3, 2]
    assert balances(gateway) == before
    with gateway.transaction() as tx:
        assert (tx.drains.last_id(), tx.drains.last_done_id()) == (4, 3)


def test_drains_of_a_day_that_comes_again_are_counted_with_those_forgotten_before(
    platform_without_spark: Platform,
) -> None:
    gateway = platform_without_spark.gateway
    fill(gateway)
    compact_records(gateway, now=datetime.now(UTC) + KEEP * 2, keep=KEEP)
    with gateway.transaction() as tx:
        tx.drains.release(4)
        tx.drains.seal(4, b"")
        tx.drains.close(4)
        add_drain(tx, 5, DAY, [total_of(DEVICES[0], "accepted", messages=3, rows=3)])
        tx.commit()
    before = balances(gateway)

    compact_records(gateway, now=datetime.now(UTC) + KEEP * 2, keep=KEEP)
    assert drains_left(gateway) == [5, 4, 3]
    assert balances(gateway) == before
    assert [balance.messages_received for balance in before] == [16, 9]
    assert all(balance.balanced for balance in before)


def test_a_drain_stays_as_long_as_a_segment_names_it(platform_without_spark: Platform) -> None:
    gateway = platform_without_spark.gateway
    fill(gateway)
    later = datetime.now(UTC) + FORGOTTEN_AFTER / 2
    compact_records(gateway, now=later, keep=timedelta(days=1))
    assert drains_left(gateway) == [4, 3, 2, 1]


def test_derived_runs_go_in_time_but_for_the_last_of_each_table(
    platform_without_spark: Platform,
) -> None:
    gateway, now = platform_without_spark.gateway, datetime.now(UTC)
    runs = [DerivedRun("current_value", number, number, number) for number in (1, 2, 3)]
    with gateway.transaction() as tx:
        for run in runs:
            tx.derived_runs.open(run)
            tx.derived_runs.close(run)
        interrupted = DerivedRun("current_value", 4, 4, 4)
        tx.derived_runs.open(interrupted)
        tx.drains.log(1, level="warning", message="long ago")
        tx.commit()

    compact_records(gateway, now=now + KEEP * 2, keep=KEEP)
    with gateway.transaction() as tx:
        assert tx.derived_runs.last("current_value") == runs[-1]
        assert tx.derived_runs.unfinished("current_value") == interrupted
    assert _count(gateway, "derived_run") == 2
    assert _count(gateway, "internal_log") == 0


def _count(gateway: Gateway, table: str) -> int:
    engine = create_engine(gateway.url)
    with engine.connect() as connection:
        found: int = connection.execute(text(f"SELECT count(*) FROM {table}")).scalar_one()
    engine.dispose()
    return found
