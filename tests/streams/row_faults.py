"""What happens to rows on their way: none of it may lose, double or swallow one."""

from dataclasses import replace
from typing import Any

from ilyama_service.simulator.spelling import Token, compact, respelled
from tests.streams.devices import Batch, Message, rows_message
from tests.streams.stream import Stream
from tests.streams.values import NESTED, ODD_INTEGERS, ODD_PK_VALUES, ODD_REALS, any_value


def redelivered_at_once(stream: Stream) -> list[Message]:
    """The broker delivers the newest message again, byte for byte."""
    return [stream.sent[-1]]


def redelivered_much_later(stream: Stream) -> list[Message]:
    """A message from long ago comes again, byte for byte."""
    return [stream.rng.choice(stream.sent)]


def resplit(stream: Stream) -> list[Message]:
    """A device that missed the ack cuts a known batch into smaller ones with new ids."""
    known = stream.known()
    size = max(1, len(known.rows) // 3)
    starts = range(0, len(known.rows), size)
    return [stream.again(known, rows=known.rows[at : at + size]).message() for at in starts]


def merged(stream: Stream) -> list[Message]:
    """Rows already sent and rows never sent travel in one batch."""
    device = stream.device()
    table = stream.rng.choice(device.tables)
    first, second = stream.next_batch(device, table), stream.next_batch(device, table)
    both = stream.remember(stream.again(first, rows=first.rows + second.rows))
    return [first.message(), both.message(), second.message()]


def reordered_batches(stream: Stream) -> list[Message]:
    """Three batches of one table overtake each other."""
    device = stream.device()
    table = stream.rng.choice(device.tables)
    batches = [stream.next_batch(device, table) for _ in range(3)]
    return [batch.message() for batch in stream.rng.sample(batches, 3)]


def reordered_rows(stream: Stream) -> list[Message]:
    """The rows of one batch are in no order, so some are late."""
    batch = stream.next_batch()
    rows = tuple(stream.rng.sample(batch.rows, len(batch.rows)))
    return [replace(batch, rows=rows).message()]


def one_number_for_many_keys(stream: Stream) -> list[Message]:
    """One transaction changes many rows under one `commit_seq`."""
    batch = stream.next_batch()
    commit_seq = batch.rows[0]["commit_seq"]
    by_pk = {compact(row["pk"]): row | {"commit_seq": commit_seq} for row in batch.rows}
    return [stream.remember(stream.again(batch, rows=tuple(by_pk.values()))).message()]


def twin_rows(stream: Stream) -> list[Message]:
    """The same row comes twice in one batch."""
    batch = stream.next_batch()
    return [replace(batch, rows=(*batch.rows, stream.rng.choice(batch.rows))).message()]


def quarrelling_twins(stream: Stream) -> list[Message]:
    """The same key comes twice in one batch, with other content."""
    batch = stream.next_batch()
    return [replace(batch, rows=(*batch.rows, *_altered(batch).rows)).message()]


def conflict_at_once(stream: Stream) -> list[Message]:
    """A cloned device sends other content under the keys of the newest batch."""
    return [stream.again(_altered(stream.batches[-1])).message()]


def conflict_much_later(stream: Stream) -> list[Message]:
    """A reset counter sends other content under keys from long ago, and says so twice."""
    conflict = _altered(stream.known())
    return [stream.again(conflict).message(), stream.again(conflict).message()]


def conflicting_delete(stream: Stream) -> list[Message]:
    """A known key comes again as a delete."""
    known = stream.known()
    rows = tuple(row | {"op": "delete", "row": None} for row in known.rows)
    return [stream.again(known, rows=rows).message()]


def _altered(batch: Batch) -> Batch:
    rows = tuple(_altered_row(row) for row in batch.rows)
    return replace(batch, rows=rows)


def _altered_row(row: dict[str, Any]) -> dict[str, Any]:
    other = {**(row["row"] or {}), "altered": row["commit_seq"] % 2}
    return row | {"op": "update", "row": other}


def respelled_batch(stream: Stream) -> list[Message]:
    """The same rows in other white space, key order, escapes and exponents."""
    known = stream.again(stream.known())
    return [rows_message(known.root, respelled(known.document(), stream.rng))]


def rebuilt_journal(stream: Stream) -> list[Message]:
    """A device starts a new journal epoch; its numbers begin anew."""
    device = stream.device()
    device.rebuild_journal()
    return [stream.next_batch(device).message()]


def new_rows_of_an_old_epoch(stream: Stream) -> list[Message]:
    """After a new epoch the old one goes on: late for known keys, in time for new ones."""
    device = stream.device()
    table = stream.rng.choice(device.tables)
    before = stream.next_batch(device, table)
    device.rebuild_journal()
    after = stream.next_batch(device, table)
    straggler = stream.next_batch(device, table, epoch=device.epochs[-2])
    return [before.message(), after.message(), straggler.message()]


def old_rows_of_an_old_epoch(stream: Stream) -> list[Message]:
    """Rows of an epoch that ended long ago are sent again under a new batch id."""
    newest = {device.root: device.epochs[-1] for device in stream.devices}
    old = [batch for batch in stream.batches if batch.epoch != newest[batch.root]]
    return [stream.again(stream.rng.choice(old or stream.batches)).message()]


def one_journal_of_two_tables(stream: Stream) -> list[Message]:
    """Two tables use the very same numbers of their journal."""
    device = stream.device()
    batch = stream.next_batch(device)
    other = stream.again(batch, table=f"{batch.table}_twin")
    return [batch.message(), stream.remember(other).message()]


def upper_case_ids(stream: Stream) -> list[Message]:
    """A firmware spells its UUIDs in upper case: the epoch is still the same."""
    known = stream.again(stream.known())
    upper = replace(known, batch_id=known.batch_id.upper(), epoch=known.epoch.upper())
    fresh = stream.next_batch()
    return [upper.message(), replace(fresh, epoch=fresh.epoch.upper()).message()]


def nulls_and_unknown_members(stream: Stream) -> list[Message]:
    """Optional members are null, deletes have no row, unknown members are everywhere."""
    batch = stream.next_batch()
    rows = tuple(_with_unknown_members(row) for row in batch.rows)
    extra = {"schema_columns": None, "batch_seq": "none", "note": {"device_id": [1, {}]}}
    return [replace(batch, rows=rows, extra=extra).message()]


def _with_unknown_members(row: dict[str, Any]) -> dict[str, Any]:
    if row["op"] == "delete":
        return {name: value for name, value in row.items() if name != "row"} | {"huge": 2**70}
    return row | {"row": row["row"] | {"device_id": "a column", "org_id": None}, "ts": []}


def odd_primary_keys(stream: Stream) -> list[Message]:
    """Primary keys of every scalar type, alone and in pairs."""
    pairs = zip(ODD_PK_VALUES, stream.rng.sample(ODD_PK_VALUES, len(ODD_PK_VALUES)), strict=True)
    composite = [{"b": right, "a": left} for left, right in pairs]
    return [_batch_of_pks(stream, [{"id": value} for value in ODD_PK_VALUES] + composite)]


def many_keys_of_one_instance(stream: Stream) -> list[Message]:
    """Different primary keys that read alike in an instance."""
    pks: list[dict[str, Any]] = [{"id": value} for value in (1, "1", 1.0, "1.0", True, "true")]
    pks += [{"other": 1}, {"id": None}, {"id": ""}, {"id": "", "z": ""}, {"id": "/"}]
    pks += [{"id": 0}, {"id": Token("-0")}, {"id": Token("1E0")}, {"id": Token(r'"\u0031"')}]
    return [_batch_of_pks(stream, pks)]


def _batch_of_pks(stream: Stream, pks: list[dict[str, Any]]) -> Message:
    device = stream.device()
    batch = device.batch(stream.fresh_table(), stream.rng, rows=len(pks))
    rows = tuple(row | {"pk": pk} for row, pk in zip(batch.rows, pks, strict=True))
    return stream.remember(replace(batch, rows=rows, table="keys", schema_hash="c" * 64)).message()


def odd_columns(stream: Stream) -> list[Message]:
    """Columns whose names need care, under a schema that nobody announced."""
    names = ("a.b", "%", "%2E", "__deleted", "%5F_deleted", "zażółć", "", "a b", "\0", '"')
    values: list[dict[str, Any]] = [
        {name: any_value(stream.rng) for name in names} for _ in range(4)
    ]
    return [_batch_of_values(stream, values)]


def odd_values(stream: Stream) -> list[Message]:
    """Nested values, nulls, booleans, the ends of int64 and of the doubles, minus zero."""
    odd = (*NESTED, *ODD_INTEGERS, *ODD_REALS, None, True, False)
    values: list[dict[str, Any]] = [{"v": value, "w": {"n": value}} for value in odd]
    return [_batch_of_values(stream, [*values, {}])]


def _batch_of_values(stream: Stream, values: list[dict[str, Any]]) -> Message:
    device = stream.device()
    batch = device.batch(device.tables[0], stream.rng, rows=len(values))
    rows = tuple(
        row | {"op": stream.rng.choice(("insert", "update")), "row": value}
        for row, value in zip(batch.rows, values, strict=True)
    )
    return stream.remember(replace(batch, rows=rows, schema_hash="d" * 64)).message()


ROW_FAULTS = (
    redelivered_at_once,
    redelivered_much_later,
    resplit,
    merged,
    reordered_batches,
    reordered_rows,
    one_number_for_many_keys,
    twin_rows,
    quarrelling_twins,
    conflict_at_once,
    conflict_much_later,
    conflicting_delete,
    respelled_batch,
    rebuilt_journal,
    new_rows_of_an_old_epoch,
    old_rows_of_an_old_epoch,
    one_journal_of_two_tables,
    upper_case_ids,
    nulls_and_unknown_members,
    odd_primary_keys,
    many_keys_of_one_instance,
    odd_columns,
    odd_values,
)
