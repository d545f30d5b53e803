"""When and how a device tells the affinities of its columns."""

from dataclasses import replace
from typing import Any

from tests.streams.devices import Batch, Device, Message
from tests.streams.schema_changes import SCHEMA_CHANGES
from tests.streams.stream import Stream, announced
from tests.streams.values import Table, any_value


def announced_first(stream: Stream) -> list[Message]:
    """The first batch of a lineage names the columns, the next does not."""
    device, table = stream.device(), stream.fresh_table()
    first, second = stream.next_batch(device, table), stream.next_batch(device, table)
    return [announced(first, table).message(), second.message()]


def announced_later(stream: Stream) -> list[Message]:
    """Values of any kind come first, the columns with the second batch."""
    device, table = stream.device(), stream.fresh_table()
    first, second = _of_any_kind(stream, device, table), _of_any_kind(stream, device, table)
    return [first.message(), announced(second, table).message()]


def never_announced(stream: Stream) -> list[Message]:
    """The columns of a hash are never named: each value goes by its own type."""
    return [_of_any_kind(stream, stream.device(), stream.fresh_table()).message()]


def announced_by_a_duplicate(stream: Stream) -> list[Message]:
    """Only a batch without one new row names the columns."""
    device, table = stream.device(), stream.fresh_table()
    first, third = _of_any_kind(stream, device, table), _of_any_kind(stream, device, table)
    duplicate = announced(stream.again(first), table)
    return [first.message(), duplicate.message(), third.message()]


def announced_by_a_rejection(stream: Stream) -> list[Message]:
    """A batch names the columns but is rejected: nothing was learned."""
    device, table = stream.device(), stream.fresh_table()
    first, second = _of_any_kind(stream, device, table), _of_any_kind(stream, device, table)
    wrong = announced(first, table)
    wrong = replace(wrong, extra=wrong.extra | {"last_commit_seq": 2**63 - 1})
    return [wrong.message(), first.message(), second.message()]


def announced_in_another_order(stream: Stream) -> list[Message]:
    """Column order and members beyond the four do not matter to the hash."""
    device, table = stream.device(), stream.fresh_table()
    columns = [column | {"collation": "NOCASE"} for column in table.schema_columns()["columns"]]
    schema = {"columns": stream.rng.sample(columns, len(columns)), "table_name": table.name}
    batch = stream.next_batch(device, table)
    return [replace(batch, extra={"schema_columns": schema}).message()]


def values_of_the_wrong_kind(stream: Stream) -> list[Message]:
    """Columns are known and many values do not fit them."""
    device, table = stream.device(), stream.fresh_table()
    return [announced(_of_any_kind(stream, device, table), table).message()]


def members_without_a_column(stream: Stream) -> list[Message]:
    """Rows have members that the announced columns do not name, and lack others."""
    device, table = stream.device(), stream.fresh_table()
    batch = stream.next_batch(device, table)
    rows = tuple(_with_strangers(row) for row in batch.rows)
    return [stream.remember(announced(replace(batch, rows=rows), table)).message()]


def _with_strangers(row: dict[str, Any]) -> dict[str, Any]:
    if row["row"] is None:
        return row
    kept = dict(list(row["row"].items())[1:])
    return row | {"row": {"ID": 1, "Mode": "x", **kept}}


def one_schema_on_two_devices(stream: Stream) -> list[Message]:
    """What one device announced says nothing about another's lineage."""
    table = stream.fresh_table()
    teller, other = stream.devices[0], stream.devices[-1]
    told = announced(stream.next_batch(teller, table), table)
    return [told.message(), _of_any_kind(stream, other, table).message()]


def _of_any_kind(stream: Stream, device: Device, table: Table) -> Batch:
    batch = device.batch(table, stream.rng, rows=stream.row_count())
    rows = tuple(row if row["row"] is None else _mixed(row, stream) for row in batch.rows)
    return stream.remember(replace(batch, rows=rows))


def _mixed(row: dict[str, Any], stream: Stream) -> dict[str, Any]:
    return row | {"row": {name: any_value(stream.rng) for name in row["row"]}}


SCHEMA_FAULTS = (
    announced_first,
    announced_later,
    never_announced,
    announced_by_a_duplicate,
    announced_by_a_rejection,
    announced_in_another_order,
    values_of_the_wrong_kind,
    members_without_a_column,
    *SCHEMA_CHANGES,
    one_schema_on_two_devices,
)
