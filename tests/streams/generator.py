"""Random streams of messages with every fault, decided by a seed alone."""

import random
from collections.abc import Callable, Iterator
from itertools import cycle

from tests.oracle.records import Event
from tests.streams.devices import Message
from tests.streams.identifiers import START_US
from tests.streams.large_faults import LARGE_FAULTS
from tests.streams.other_faults import OTHER_FAULTS
from tests.streams.row_faults import ROW_FAULTS
from tests.streams.schema_changes import SCHEMA_CHANGES
from tests.streams.schema_faults import SCHEMA_FAULTS
from tests.streams.stream import Stream
from tests.streams.telemetry_faults import TELEMETRY_FAULTS

Fault = Callable[[Stream], list[Message]]

DAY_US = 86_400_000_000
SMALL_FAULTS: tuple[Fault, ...] = (
    *ROW_FAULTS,
    *SCHEMA_FAULTS,
    *TELEMETRY_FAULTS,
    *OTHER_FAULTS,
)
FAULTS: dict[str, Fault] = {fault.__name__: fault for fault in (*SMALL_FAULTS, *LARGE_FAULTS)}


def generate(
    seed: int,
    *,
    batches: int,
    devices: int = 3,
    tables: int = 2,
    rows_per_batch: tuple[int, int] = (1, 50),
    fault_rate: float = 0.3,
    start_us: int = START_US,
    day_crossings: bool = True,
    pks_per_table: int = 20,
) -> list[Event]:
    """A stream of so many messages, in arrival order.

    Args:
        seed: the same seed gives the same bytes.
        batches: the number of messages, good and bad.
        devices: the size of the fleet.
        tables: tables per device.
        rows_per_batch: the least and the most rows of an ordinary batch.
        fault_rate: how often a fault is played instead of sending an ordinary batch.
        start_us: when the first message arrives.
        day_crossings: whether the stream jumps over midnight now and then.
        pks_per_table: how many primary keys a table has.
    """
    rng = random.Random(seed)
    stream = Stream(
        rng,
        devices=devices,
        tables=tables,
        rows_per_batch=rows_per_batch,
        pks_per_table=pks_per_table,
    )
    stream.publish([stream.plain_message()])
    deck = shuffled_for_ever(rng)
    while len(stream.sent) < batches:
        is_fault = rng.random() < fault_rate
        stream.publish(next(deck)(stream) if is_fault else [stream.plain_message()])
    times = arrival_times(rng, start_us, day_crossings=day_crossings)
    messages = stream.sent[:batches]
    return [Event(sent.topic, sent.payload, next(times)) for sent in messages]


def generate_changes(seed: int, *, batches: int) -> list[Event]:
    """A stream in which schemas change all the time, between ordinary batches and retries."""
    rng = random.Random(seed)
    stream = Stream(rng, devices=2, tables=2, rows_per_batch=(1, 6), pks_per_table=5)
    stream.publish([stream.plain_message()])
    while len(stream.sent) < batches:
        changes = rng.choice(SCHEMA_CHANGES)(stream)
        again = [rng.choice(changes)] if rng.random() < 0.5 else []
        stream.publish([*changes, *again, stream.plain_message()])
    times = arrival_times(rng, START_US, day_crossings=True)
    return [Event(sent.topic, sent.payload, next(times)) for sent in stream.sent[:batches]]


def shuffled_for_ever(rng: random.Random) -> Iterator[Fault]:
    """Every small fault once and one large fault per round, each round in another order."""
    for large in cycle(rng.sample(LARGE_FAULTS, len(LARGE_FAULTS))):
        hand = [*SMALL_FAULTS, large]
        yield from rng.sample(hand, len(hand))


def arrival_times(rng: random.Random, start_us: int, *, day_crossings: bool) -> Iterator[int]:
    """Times that never go back: ties, bursts, pauses, and jumps to the edge of a day or beyond."""
    now = start_us
    while True:
        yield now
        now += rng.choice((0, 0, 1, 7, 400, 20_000))
        if day_crossings and rng.random() < 0.03:
            midnight = (now // DAY_US + 1) * DAY_US
            now = max(now, midnight + rng.choice((-5, -1, 0, 3_600_000_000)))
