"""The books of days past do not grow with the number of their drains."""

from datetime import UTC, date, datetime, timedelta

from ilyama_resources.postgres.ledger import LedgerFilter
from tests.platform import Platform
from tests.streams import generate


def test_sums_stay_the_same_when_their_lines_are_rolled_up(platform: Platform) -> None:
    platform.import_events(generate(41, batches=60), ILYAMA_SEGMENT_MAX_BYTES="1")
    with platform.intake(drain_max_bytes=1) as intake, intake.alone():
        while intake.drain() is not None:
            pass
    everything = LedgerFilter()
    with platform.gateway.transaction() as tx:
        sums = tx.ledger.page(everything, after=None, limit=1_000)
        balance = tx.ledger.balance(everything)
        assert tx.ledger.roll_up(before=date.max) > 0
        assert tx.segments.forget(drained_before=datetime.now(UTC) + timedelta(days=1)) == 60
        assert tx.ledger.page(everything, after=None, limit=1_000) == sums
        assert tx.ledger.balance(everything) == balance
        assert tx.ledger.roll_up(before=date.max) == 0
    assert balance.messages_received == 60
