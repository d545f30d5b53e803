"""What happens to telemetry on its way, and what clocks and counters of devices do to it."""

from dataclasses import replace
from typing import Any

from ilyama_service.simulator.spelling import respelled
from tests.streams.devices import Message
from tests.streams.identifiers import START_US
from tests.streams.stream import Stream
from tests.streams.telemetry import Sampler, TelemetryBatch

DAY_US = 86_400_000_000
ODD_DAYS = (-400, -366, -364, -31, -29, 0, 2)
LONG_AGO, FAR_AHEAD = 0, 4_102_444_800_000_000
"""1970 and 2100."""


def telemetry_in_a_row(stream: Stream) -> list[Message]:
    """Batches of one table, numbers with and without gaps."""
    sampler = stream.sampler()
    gaps = stream.rng.sample((0, 0, 1, 7), 3)
    return [stream.sampled(sampler, gap=gap).message() for gap in gaps]


def telemetry_redelivered(stream: Stream) -> list[Message]:
    """A batch comes again, byte for byte, at once and much later."""
    batch = stream.sampled(stream.sampler())
    return [batch.message(), batch.message(), stream.known_telemetry().message()]


def telemetry_respelled(stream: Stream) -> list[Message]:
    """A batch comes again under its id, spelled in other ways: still the same batch."""
    batch = stream.known_telemetry()
    shouted = replace(batch, batch_id=batch.batch_id.upper())
    return [
        batch.spelled(respelled(batch.document(), stream.rng)),
        shouted.message(),
        batch.spelled(respelled(batch.document(), stream.rng)),
    ]


def telemetry_conflict(stream: Stream) -> list[Message]:
    """A cloned device sends other content under known ids, one of them twice."""
    known, new = stream.known_telemetry(), stream.sampled(stream.sampler())
    others = [
        replace(known, extra={"note": "clone"}),
        replace(known, batch_seq=known.batch_seq + 1),
        replace(new, rows=(*new.rows, (new.rows[-1][0], {"v": 1}))),
        replace(new, table="another", extra={"schema_columns": None}),
    ]
    first, *rest = [other.message() for other in others]
    return [new.message(), first, *rest, first]


def large_telemetry_conflict(stream: Stream) -> list[Message]:
    """Content that is too long to be listed is told by its hash."""
    batch = stream.sampled(stream.sampler())
    texts = ("x" * 5_000, "y" * 5_000)
    return [replace(batch, extra={"note": text}).message() for text in texts]


def telemetry_out_of_turn(stream: Stream) -> list[Message]:
    """New batches with the number of the newest, and with older ones."""
    sampler = stream.sampler()
    batches = [stream.sampled(sampler, gap=2) for _ in range(3)]
    same, *older = [
        replace(batch, batch_id=stream.ids.uuid7()) for batch in (batches[-1], *batches)
    ]
    never_came = replace(older[0], batch_id=stream.ids.uuid7(), batch_seq=batches[0].batch_seq - 1)
    return [batch.message() for batch in (*batches, same, *older, never_came)]


def telemetry_overtaken(stream: Stream) -> list[Message]:
    """Three batches overtake each other; those that come too late are stale."""
    sampler = stream.sampler()
    batches = [stream.sampled(sampler) for _ in range(3)]
    return [batch.message() for batch in stream.rng.sample(batches, 3)]


def telemetry_with_old_ids(stream: Stream) -> list[Message]:
    """Ids that were made long before they are sent are new all the same."""
    old = [stream.ids.uuid7() for _ in range(2)]
    sampler = stream.sampler()
    newer = stream.sampled(sampler)
    later = [replace(stream.sampled(sampler), batch_id=batch_id) for batch_id in reversed(old)]
    return [batch.message() for batch in (newer, *later)]


def telemetry_of_odd_clocks(stream: Stream) -> list[Message]:
    """Moments in 1970 and 2100, and on both sides of every window."""
    sampler = stream.sampler()
    batch = stream.sampled(sampler)
    moments = [START_US + day * DAY_US for day in ODD_DAYS]
    odd = tuple((ts, sampler.fields()) for ts in (LONG_AGO, *moments, FAR_AHEAD))
    return [replace(batch, rows=(*batch.rows, *odd)).message()]


def telemetry_only_from_the_past(stream: Stream) -> list[Message]:
    """A clock that was never set."""
    sampler = stream.sampler()
    batch = stream.sampled(sampler)
    return [replace(batch, rows=((LONG_AGO + 5, sampler.fields()),)).message()]


def telemetry_in_no_order(stream: Stream) -> list[Message]:
    """Rows of one batch in no order, and moments from before the newest."""
    sampler = stream.sampler()
    first, second = stream.sampled(sampler), stream.sampled(sampler)
    rows = tuple(stream.rng.sample(second.rows, len(second.rows)))
    back = tuple((ts - 500_000, sampler.fields()) for ts, _ in first.rows)
    return [first.message(), replace(second, rows=rows).message(), _next(stream, sampler, back)]


def telemetry_of_known_moments(stream: Stream) -> list[Message]:
    """Moments that were told before: the same values, others, and other kinds."""
    known = stream.known_telemetry()
    sampler = stream.sampler_of(known)
    same = _next(stream, sampler, known.rows)
    other = _next(stream, sampler, tuple((ts, sampler.fields()) for ts, _ in known.rows))
    odd = _next(stream, sampler, tuple((ts, sampler.odd_fields()) for ts, _ in known.rows))
    return [same, other, odd, stream.rng.choice((same, other))]


def telemetry_twins(stream: Stream) -> list[Message]:
    """One moment twice in a batch, with the same value, another one and finer times."""
    sampler = stream.sampler()
    batch = stream.sampled(sampler)
    ts, fields = batch.rows[-1]
    twins = ((ts, fields), (ts, sampler.fields()), (ts, sampler.odd_fields()))
    message = replace(batch, rows=(*batch.rows, *twins)).message()
    finer = message.payload.replace(b'Z","fields"', b'999Z","fields"', 1)
    early = finer.replace(b'Z","cursor_end', b'999Z","cursor_end', 1)
    return [replace(message, payload=early)]


def telemetry_schemas(stream: Stream) -> list[Message]:
    """Columns are told first, later, or by a batch that comes twice; values may not fit them."""
    device, table = stream.device(), stream.fresh_table()
    sampler = Sampler(device.root, table, stream.ids, stream.rng)
    odd = [_odd(sampler, stream.sampled(sampler)) for _ in range(4)]
    again = replace(sampler.announced(odd[0]), batch_id=odd[0].batch_id)
    told = stream.rng.choice((sampler.announced(odd[1]), odd[1]))
    return [batch.message() for batch in (odd[0], told, again, odd[2], odd[3])]


def telemetry_ids_of_rows(stream: Stream) -> list[Message]:
    """Rows with ids of any version and case, with null, and without."""
    batch = stream.sampled(stream.sampler())
    document = batch.document()
    ids = ("00000000-0000-0000-0000-000000000000", stream.ids.uuid7().upper(), None)
    for row in document["rows"]:
        row |= stream.rng.choice(({"row_id": stream.rng.choice(ids)}, {}))
    return [batch.spelled(respelled(document, stream.rng))]


def _next(stream: Stream, sampler: Sampler, rows: tuple[Any, ...]) -> Message:
    return stream.remember_telemetry(replace(sampler.batch(1), rows=rows)).message()


def _odd(sampler: Sampler, batch: TelemetryBatch) -> TelemetryBatch:
    return replace(batch, rows=tuple((ts, sampler.odd_fields()) for ts, _ in batch.rows))


TELEMETRY_FAULTS = (
    telemetry_in_a_row,
    telemetry_redelivered,
    telemetry_respelled,
    telemetry_conflict,
    large_telemetry_conflict,
    telemetry_out_of_turn,
    telemetry_overtaken,
    telemetry_with_old_ids,
    telemetry_of_odd_clocks,
    telemetry_only_from_the_past,
    telemetry_in_no_order,
    telemetry_of_known_moments,
    telemetry_twins,
    telemetry_schemas,
    telemetry_ids_of_rows,
)
