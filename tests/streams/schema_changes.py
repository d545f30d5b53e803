"""Firmware updates: the schema of a table changes in the field, for better or worse."""

from collections.abc import Callable
from dataclasses import replace

from tests.streams.devices import Device, Message
from tests.streams.stream import Stream, announced
from tests.streams.values import Table

Change = Callable[[Table, Stream], Table]


def additive_schema(stream: Stream) -> list[Message]:
    """A new nullable column, then more of it, then the old schema again."""
    device, table = stream.device(), stream.fresh_table()
    grown = _grown(table, stream)
    after = [_spelled(stream, device, grown), *_silent(stream, device, grown, table)]
    return [_spelled(stream, device, table), *after]


def breaking_schema(stream: Stream) -> list[Message]:
    """A change that breaks what was there, one way or another."""
    device, table = stream.device(), stream.fresh_table()
    change = stream.rng.choice(BREAKING)
    broken = change(table, stream)
    first = [_spelled(stream, device, table), *_silent(stream, device, table)]
    return [*first, _spelled(stream, device, broken), *_silent(stream, device, broken, table)]


def never_announced_change(stream: Stream) -> list[Message]:
    """Another hash whose columns come late, or never."""
    device, table = stream.device(), stream.fresh_table()
    grown = _grown(table, stream)
    late = [_spelled(stream, device, grown)] if stream.rng.random() < 0.5 else []
    return [_spelled(stream, device, table), *_silent(stream, device, grown, grown), *late]


def flipping_schema(stream: Stream) -> list[Message]:
    """A device that cannot decide between two schemas."""
    device, table = stream.device(), stream.fresh_table()
    two = (table, _grown(table, stream))
    return [_spelled(stream, device, two[turn % 2]) for turn in range(6)]


def bound_schema(stream: Stream) -> list[Message]:
    """Another hash of columns that are all known: only NOT NULL changed."""
    device, table = stream.device(), stream.fresh_table()
    relaxed = replace(table, nullable=True)
    then = _silent(stream, device, relaxed, table, relaxed)
    return [_spelled(stream, device, table), _spelled(stream, device, relaxed), *then]


def change_after_silence(stream: Stream) -> list[Message]:
    """The first schema was never spelled out, so that nothing can be compared with it."""
    device, table = stream.device(), stream.fresh_table()
    grown = _grown(table, stream)
    return [*_silent(stream, device, table), _spelled(stream, device, grown)]


def _spelled(stream: Stream, device: Device, table: Table) -> Message:
    return announced(stream.next_batch(device, table), table).message()


def _silent(stream: Stream, device: Device, *tables: Table) -> list[Message]:
    return [stream.next_batch(device, table).message() for table in tables]


def _grown(table: Table, stream: Stream) -> Table:
    added = f"added_{stream.rng.randrange(3)}"
    return replace(table, affinities=(*table.affinities, (added, "REAL")))


def _retyped(table: Table, stream: Stream) -> Table:
    del stream
    *rest, (name, affinity) = table.affinities
    other = "TEXT" if affinity != "TEXT" else "REAL"
    return replace(table, affinities=(*rest, (name, other)))


def _dropped(table: Table, stream: Stream) -> Table:
    del stream
    return replace(table, affinities=table.affinities[:-1])


def _with_another_key(table: Table, stream: Stream) -> Table:
    del stream
    return replace(table, pk_names=(*table.pk_names, table.affinities[-1][0]))


def _renamed(table: Table, stream: Stream) -> Table:
    *rest, (name, affinity) = table.affinities
    return replace(table, affinities=(*rest, (f"{name}_{stream.rng.randrange(9)}", affinity)))


BREAKING: tuple[Change, ...] = (_retyped, _dropped, _with_another_key, _renamed)
SCHEMA_CHANGES = (
    additive_schema,
    breaking_schema,
    never_announced_change,
    flipping_schema,
    bound_schema,
    change_after_silence,
)
