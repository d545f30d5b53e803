"""Captured traffic, imported and drained by the command line, equals the oracle."""

import random

import pytest

from tests.platform import Platform
from tests.streams import generate


@pytest.mark.parametrize("seed", [1])
def test_a_stream_with_every_fault_equals_the_oracle(platform: Platform, seed: int) -> None:
    events = generate(seed, batches=130)
    platform.import_events(events)
    platform.drain()
    platform.assert_equals_oracle(events)


def test_consecutive_files_give_the_same_tables_as_one(platform: Platform) -> None:
    events = generate(3, batches=60)
    chance = random.Random(3)
    cuts = sorted(chance.sample(range(1, 60), 3))
    for start, end in zip([0, *cuts], [*cuts, 60], strict=True):
        platform.import_events(events[start:end])
        if chance.random() < 0.5:
            platform.drain()
    platform.drain()
    platform.assert_equals_oracle(events)


def test_importing_a_file_twice_is_the_devices_sending_twice(platform: Platform) -> None:
    events = generate(4, batches=40, day_crossings=False)
    platform.import_events(events)
    platform.import_events(events)
    with platform.intake() as intake, intake.alone():
        while intake.drain() is not None:
            pass
    lines = platform.rows("batch_ledger")
    assert len(lines) == 2 * len(events)
    keys = [
        (
            r["device_id"],
            r["source_table"],
            r["journal_epoch"],
            r["source_pk_hash"],
            r["commit_seq"],
        )
        for r in platform.rows("row_changes")
    ]
    assert len(keys) == len(set(keys))


def test_hundreds_of_drains_equal_the_oracle(platform: Platform) -> None:
    events = generate(5, batches=110)
    platform.import_events(events, ILYAMA_SEGMENT_MAX_BYTES="1")
    with platform.intake(drain_max_bytes=1) as intake, intake.alone():
        drains = 0
        while intake.drain() is not None:
            drains += 1
    assert drains > 100
    platform.drain()
    platform.assert_equals_oracle(events)
