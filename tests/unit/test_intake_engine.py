"""The engine equals the oracle, however a stream is cut into drains."""

import random
from itertools import pairwise

import pytest

from tests.memory_platform import MemoryPlatform
from tests.oracle import Event
from tests.streams import generate
from tests.tables import assert_equals_oracle, expected_tables

SEEDS = range(2)


def _in_drains(events: list[Event], drains: int, seed: int) -> list[list[Event]]:
    """A stream cut at random places; order stays."""
    chance = random.Random(seed)
    inner = min(drains - 1, len(events) - 1)
    cuts = [0, *sorted(chance.sample(range(1, len(events)), inner)), len(events)]
    return [events[start:end] for start, end in pairwise(cuts)]


@pytest.mark.parametrize("drains", [1, 9], ids="{} drains".format)
@pytest.mark.parametrize("seed", SEEDS, ids="seed {}".format)
def test_every_split_into_drains_equals_the_oracle(seed: int, drains: int) -> None:
    events = generate(seed, batches=50)
    platform = MemoryPlatform()
    for part in _in_drains(events, drains, seed):
        platform.drain(part)
    expected = expected_tables(events)
    assert platform.tables.pop("staged_rows") == []
    derived = {"current_value": platform.current_values(), "gaps": platform.gaps()}
    assert_equals_oracle(platform.tables | derived, expected)


def test_a_message_per_drain_equals_the_oracle() -> None:
    events = generate(99, batches=40)
    platform = MemoryPlatform()
    for event in events:
        platform.drain([event])
    del platform.tables["staged_rows"]
    assert_equals_oracle(platform.tables | {"gaps": platform.gaps()}, expected_tables(events))
