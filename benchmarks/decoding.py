"""Ratio 6: validating, hashing and making Arrow columns, against bare `orjson.loads`."""

from __future__ import annotations

import time
from collections.abc import Sequence

import orjson
import pyarrow as pa

from benchmarks.correctness import device_of, told_by_oracle
from benchmarks.measuring import Figure, Measured, always, interleaved
from benchmarks.workbench import Workbench
from benchmarks.workloads import Fleet
from ilyama_assets.drains.encoding import Encoder
from ilyama_assets.tables import ROW_CHANGES
from ilyama_protocol.intake.digests import Digests
from ilyama_protocol.intake.known_keys import KnownKeys
from ilyama_protocol.intake.outcomes import AcceptedRows, Arrival, Message, Origin, Outcomes
from ilyama_protocol.intake.state import DeviceState
from ilyama_protocol.messages import RowBatch
from ilyama_protocol.topics import parse_topic
from ilyama_protocol.validation import validate
from tests.oracle import Event
from tests.tables import assert_equals_oracle, plain_rows

ASKED = 2
"""So many batches are put to the oracle, which is slow; of all, the contents are compared."""


def measure(bench: Workbench) -> Measured:
    """Time both on one core; of two rates, the slower one's seconds stand below."""
    scale = bench.scale
    events = Fleet(6, devices=1).batches(scale.decoded_batches, rows=scale.decoded_rows)
    _assert_right(events)
    measured = interleaved(
        always(lambda: _loaded(events)),
        always(lambda: row_changes_of(events)),
        rounds=scale.pure_rounds,
        clock=time.process_time,
    )
    rows = sum(len(orjson.loads(event.payload)["rows"]) for event in events)
    return measured.with_figures(
        Figure("validated, hashed and made Arrow", rows / measured.denominator_s, "rows/s/core"),
        Figure("bare orjson.loads", rows / measured.numerator_s, "rows/s/core"),
    )


def _loaded(events: Sequence[Event]) -> None:
    """Keep nothing: what is kept costs the garbage collector, not the parser."""
    for event in events:
        orjson.loads(event.payload)


def row_changes_of(events: Sequence[Event]) -> pa.Table:
    """The rows of valid batches of one device, all taken for new, as the columns of their table."""
    state, keys, digests = DeviceState(), KnownKeys(device_of(events[0])), Digests()
    accepted = [
        _accepted(event, received_at=state.receive(event.received_at_us, len(event.payload)),
                  keys=keys, digests=digests)
        for event in events
    ]  # fmt: skip
    return Encoder(1, Origin.LIVE).encode(Outcomes(accepted=accepted))[ROW_CHANGES.name]


def _accepted(event: Event, *, received_at: int, keys: KnownKeys, digests: Digests) -> AcceptedRows:
    address = parse_topic(event.topic)
    message = Message("segment", 0, event.topic, event.payload, event.received_at_us)
    batch = validate(address.kind, event.payload)
    assert isinstance(batch, RowBatch)
    arrival = Arrival(
        message, address, device_of(event), received_at, digests.of(event.payload), ""
    )
    rows, numbers = range(len(batch.op)), keys.numbers(batch.pk_text)
    # As the engine does: what a batch holds is let go when its values are told.
    return AcceptedRows(arrival, batch.without_contents(), rows, set(), keys, numbers, [])


def _assert_right(events: Sequence[Event]) -> None:
    found = plain_rows(row_changes_of(events))
    expected = told_by_oracle(events[:ASKED]).tables()
    first = found[: len(expected[ROW_CHANGES.name])]
    assert_equals_oracle({ROW_CHANGES.name: first}, expected)
    sent = [row for event in events for row in orjson.loads(event.payload)["rows"]]
    contents = [(row["commit_seq"], orjson.loads(row["row"])) for row in found]
    assert contents == [(row["commit_seq"], row["row"]) for row in sent]
