"""What a paused lineage sends is staged, and released as if it had never been paused."""

from collections.abc import Sequence

from ilyama_protocol.intake.lineage_rulings import PauseReason
from ilyama_resources.faults import CRASH_STATUS
from tests.oracle import Event, Oracle
from tests.platform import Platform
from tests.streams import generate
from tests.tables import assert_warehouse_equals_oracle, expected_tables

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


def _pause(platform: Platform, lineages: set[tuple[str, str]], oracle: Oracle) -> None:
    with platform.gateway.transaction() as tx:
        tx.pauses.add(lineages, PauseReason.OPERATOR)
        tx.commit()
    for lineage in lineages:
        oracle.staging.pause(lineage)


def _resume(platform: Platform, lineages: set[tuple[str, str]], oracle: Oracle) -> None:
    with platform.gateway.transaction() as tx:
        tx.pauses.clear(lineages, PauseReason.OPERATOR)
        tx.commit()
    for lineage in lineages:
        oracle.staging.resume(lineage)


def _assert_equals(platform: Platform, oracle: Oracle) -> None:
    assert_warehouse_equals_oracle(platform.settings.warehouse, oracle.tables())


def _feed(oracle: Oracle, events: Sequence[Event]) -> None:
    for event in events:
        oracle.feed(event)


def test_rows_of_paused_lineages_are_staged_and_released_as_decided(platform: Platform) -> None:
    """Repetitions, conflicts and late rows are told among staged rows as among others."""
    events, oracle = generate(61, batches=60), Oracle()
    lineages = _lineages(events)
    platform.import_events(events[:20])
    platform.drain()
    _feed(oracle, events[:20])
    _pause(platform, lineages, oracle)
    for part in (events[20:40], events[40:]):
        platform.import_events(part)
        platform.drain()
        _feed(oracle, part)
    _assert_equals(platform, oracle)
    with platform.gateway.transaction() as tx:
        assert tx.backlog.free().lineages == 0
    _resume(platform, lineages, oracle)
    platform.drain("--verify")
    oracle.release()
    _assert_equals(platform, oracle)
    with platform.gateway.transaction() as tx:
        assert tx.backlog.free().lineages == 0


def test_a_release_survives_a_crash_at_every_step(platform: Platform) -> None:
    events, oracle = generate(62, batches=60), Oracle()
    lineages = _lineages(events)
    _pause(platform, lineages, oracle)
    platform.import_events(events)
    platform.drain()
    _feed(oracle, events)
    _resume(platform, lineages, oracle)
    for point in RELEASE_POINTS:
        died = platform.try_ilyama("drain", CRASH_AT=point, ILYAMA_DRAIN_MAX_BYTES="3000")
        assert died.returncode == CRASH_STATUS, f"{point}: {died.stderr}"
    platform.drain()
    oracle.release()
    _assert_equals(platform, oracle)
