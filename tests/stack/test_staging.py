"""What a paused lineage sends is staged, and released as if it had never been paused."""

from collections.abc import Sequence

from ilyama_protocol.intake.lineage_rulings import PauseReason
from ilyama_resources.faults import CRASH_STATUS
from tests.oracle import Event
from tests.platform import Platform
from tests.streams import generate
from tests.tables import Row, assert_equals_oracle, expected_tables, stored_rows

SHOWN = (
    "raw_batches",
    "rejected_batches",
    "row_changes",
    "key_conflicts",
    "metric_datapoint",
    "state_datapoint",
    "quarantined_datapoints",
    "current_value",
)
RELEASE_POINTS = [
    "open.before",
    "open.after",
    "decide.before",
    "decide.after",
    "seal.before",
    "seal.after",
    *(f"commit.{'before' if table % 2 else 'after'}:{table}" for table in range(1, 5)),
    "close.before",
    "close.after",
]


def _lineages(events: Sequence[Event]) -> set[tuple[str, str]]:
    changes = expected_tables(events)["row_changes"]
    return {(change["device_id"], change["source_table"]) for change in changes}


def _pause(platform: Platform, lineages: set[tuple[str, str]]) -> None:
    with platform.gateway.transaction() as tx:
        tx.pauses.add(lineages, PauseReason.OPERATOR)
        tx.commit()


def _resume(platform: Platform, lineages: set[tuple[str, str]]) -> None:
    with platform.gateway.transaction() as tx:
        tx.pauses.clear(lineages, PauseReason.OPERATOR)
        tx.commit()


def _assert_shown_as_never_paused(platform: Platform, events: Sequence[Event]) -> None:
    expected = expected_tables(events)
    stored = {table: stored_rows(platform.settings.warehouse, table) for table in SHOWN}
    assert_equals_oracle(stored, expected)


def _staged(platform: Platform) -> list[Row]:
    return [line for line in platform.rows("batch_ledger") if line["outcome"] == "staged"]


def test_rows_of_paused_lineages_are_staged_and_released_as_decided(platform: Platform) -> None:
    events = generate(61, batches=60)
    lineages = _lineages(events)
    platform.import_events(events[:20])
    platform.drain()
    _pause(platform, lineages)
    before = len(platform.rows("row_changes"))
    for part in (events[20:40], events[40:]):
        platform.import_events(part)
        platform.drain()
    assert len(platform.rows("row_changes")) == before
    assert sum(line["rows_staged"] for line in _staged(platform)) == len(
        platform.rows("staged_rows")
    )
    _resume(platform, lineages)
    platform.drain("--verify")
    _assert_shown_as_never_paused(platform, events)
    with platform.gateway.transaction() as tx:
        assert tx.backlog.free().lineages == 0


def test_a_release_survives_a_crash_at_every_step(platform: Platform) -> None:
    events = generate(62, batches=60)
    lineages = _lineages(events)
    _pause(platform, lineages)
    platform.import_events(events)
    platform.drain()
    _resume(platform, lineages)
    for point in RELEASE_POINTS:
        died = platform.try_ilyama("drain", CRASH_AT=point, ILYAMA_DRAIN_MAX_BYTES="3000")
        assert died.returncode == CRASH_STATUS, f"{point}: {died.stderr}"
    platform.drain()
    _assert_shown_as_never_paused(platform, events)
