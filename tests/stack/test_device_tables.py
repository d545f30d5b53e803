"""Device tables of random streams equal the oracle's, also when a run died between two of them."""

import pytest
from deltalake import DeltaTable

from ilyama_resources.delta.device_tables import columns_of, mirror_at, mirror_names
from ilyama_resources.faults import CRASH_STATUS
from tests.oracle import Event, Oracle
from tests.oracle.device_tables import Column
from tests.platform import Platform
from tests.streams import generate
from tests.tables import stored_rows


def assert_device_tables_equal_oracle(platform: Platform, events: list[Event]) -> None:
    """Compare every device table with what the oracle says of a stream."""
    oracle = Oracle()
    for event in events:
        oracle.feed(event)
    expected = oracle.device_tables
    root = platform.settings.warehouse
    found = {}
    for name in mirror_names(root):
        table = DeltaTable(root / name)
        source_table = mirror_at(table).source_table
        columns = columns_of(table)
        declared = {c.original: Column(c.affinity, c.type.value) for c in columns}
        for column in columns:
            assert column.affinity == expected.affinity(source_table, column.original), column
        found[source_table] = {
            (row["device_id"], row["__source_pk_hash"]): {
                c.original: row[c.name] for c in columns if row[c.name] is not None
            }
            for row in stored_rows(root, name)
        }
        wanted = expected.rows(source_table, declared)
        assert _told(found[source_table]) == _told(wanted), source_table
    living = {table for table in expected.source_tables if expected.rows(table, {})}
    assert living <= {*found}


def _told(rows: dict[tuple[str, str], dict[str, object]]) -> dict[tuple[str, str], str]:
    """Rows as text that tells -0.0 from 0.0 and 1 from 1.0."""
    return {key: repr(sorted(row.items())) for key, row in rows.items()}


@pytest.mark.parametrize("seed", [31])
def test_a_stream_with_every_fault_gives_the_tables_of_the_devices(
    platform: Platform, seed: int
) -> None:
    events = generate(seed, batches=100)
    first, second = events[:50], events[50:]
    platform.import_events(first)
    merging = {"ILYAMA_DEVICE_TABLE_REWRITE_BYTES": "0"}
    died = platform.try_ilyama("drain", CRASH_AT="mirror_write.after:1", **merging)
    assert died.returncode == CRASH_STATUS, died.stderr
    platform.drain_and_mirror()
    assert_device_tables_equal_oracle(platform, first)

    platform.import_events(second)
    died = platform.try_ilyama("drain", CRASH_AT="mirror_write.after:2", **merging)
    assert died.returncode == CRASH_STATUS, died.stderr
    platform.drain_and_mirror()
    assert_device_tables_equal_oracle(platform, events)


def test_a_move_survives_a_run_that_dies_and_another_move(platform: Platform) -> None:
    events = generate(7, batches=20)
    platform.import_events(events)
    platform.drain_and_mirror()
    before = _rows_of_projects(platform)
    device_id = min(device for device, *_ in before)

    platform.ilyama("devices", "move", device_id, "--project", "acme")
    died = platform.try_ilyama("drain", CRASH_AT="mirror_write.after:1")
    assert died.returncode == CRASH_STATUS, died.stderr
    platform.ilyama("devices", "move", device_id, "--project", "waterworks")
    platform.drain_and_mirror()

    moved = {
        (device, "waterworks" if device == device_id else project, *row)
        for device, project, *row in before
    }
    assert _rows_of_projects(platform) == moved
    with platform.gateway.transaction() as tx:
        assert not tx.device_table_moves.wait()


def _rows_of_projects(platform: Platform) -> set[tuple[str, str | None, str, str]]:
    """Every row of every device table: its device, project, source table and primary key."""
    root = platform.settings.warehouse
    found = set()
    for name in mirror_names(root):
        mirror = mirror_at(DeltaTable(root / name))
        for row in stored_rows(root, name):
            key = (mirror.source_table, row["__source_pk_hash"])
            found.add((row["device_id"], mirror.project_id, *key))
    return found
