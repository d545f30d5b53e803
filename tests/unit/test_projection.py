"""Current values travel in portions, an instance with its values, and identities never meet."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pyarrow as pa

from ilyama_assets.drains.orders import Products, in_portions
from ilyama_assets.drains.projection import (
    PORTION_VALUES,
    decoded,
    encoded,
    one_per_identity,
    projected,
    without,
)
from ilyama_protocol.intake.datapoints import DatapointKind
from ilyama_protocol.intake.outcomes import CurrentValue


def _value(ts: int = 0, value: float = 1.5, table: str = "t") -> CurrentValue:
    return CurrentValue(DatapointKind.METRIC, value, ts, 7, table)


def _told(instances: pa.Table, field: str = "value_double") -> dict[tuple[str, str, str], Any]:
    """A field of every value, by owner, key and instance."""
    return {
        (row["owner_id"], key, row["instance"]): told
        for row in instances.to_pylist()
        for key, told in zip(row["key"], row[field], strict=True)
    }


def test_values_of_an_instance_lie_together_by_key() -> None:
    values = {
        "t.b": {"1": _value(5, 2.0), "2": _value(6, 3.0)},
        "t.a": {"2": _value(7, 4.0), "3": _value(8, 5.0)},
        "plant.a": {"1": _value(9, 6.0)},
    }
    instances = projected([("dev", values)])
    assert {(row["family"], row["instance"], *row["key"]) for row in instances.to_pylist()} == {
        ("t", "1", "t.b"),
        ("t", "2", "t.a", "t.b"),
        ("t", "3", "t.a"),
        ("plant", "1", "plant.a"),
    }
    assert _told(instances) == {
        ("dev", "t.b", "1"): 2.0,
        ("dev", "t.b", "2"): 3.0,
        ("dev", "t.a", "2"): 4.0,
        ("dev", "t.a", "3"): 5.0,
        ("dev", "plant.a", "1"): 6.0,
    }
    (second,) = (row for row in instances.to_pylist() if len(row["key"]) == 2)
    assert (second["oldest"].microsecond, second["newest"].microsecond) == (6, 7)


def test_portions_joined_are_the_whole() -> None:
    values = {str(i): _value(i) for i in range(PORTION_VALUES + 5)}
    table = projected([("dev", {"t.c": values})])
    streams = list(encoded([table]))
    assert len(streams) == 2
    assert decoded(streams).equals(table)
    parts = list(in_portions(Products(current=streams, keys={"t.c": "metric"})))
    assert [part.current for part in parts] == [[stream] for stream in streams]
    assert [part.keys for part in parts] == [{"t.c": "metric"}, {}]


def test_portions_are_cut_by_values() -> None:
    keys = {f"t.c{number:04}": {str(i): _value(i) for i in range(30)} for number in range(1_000)}
    table = projected([("dev", keys)])
    assert table.num_rows == 30
    streams = list(encoded([table]))
    assert len(streams) == 2
    assert decoded(streams).equals(table)


def test_no_values_are_no_rows() -> None:
    assert list(encoded([])) == []
    assert decoded([b""]).num_rows == 0
    assert projected([]).num_rows == 0
    assert list(encoded([projected([])])) == []


def test_parts_of_an_instance_become_one() -> None:
    first = projected([("dev", {"t.a": {"1": _value(5, 1.0)}, "t.b": {"1": _value(5, 2.0)}})])
    second = projected([("dev", {"t.b": {"1": _value(6, 3.0)}, "t.c": {"1": _value(4, 4.0)}})])
    other = projected([("dev", {"t.b": {"2": _value(6, 5.0)}})])
    joined = one_per_identity(pa.concat_tables([first, second, other]))
    assert joined.num_rows == 2
    assert _told(joined) == {
        ("dev", "t.a", "1"): 1.0,
        ("dev", "t.b", "1"): 3.0,
        ("dev", "t.c", "1"): 4.0,
        ("dev", "t.b", "2"): 5.0,
    }
    assert one_per_identity(first) is first


def test_lineages_that_are_not_served_are_left_out() -> None:
    values = {
        "t.a": {"1": _value(5, 1.0), "2": _value(5, 2.0)},
        "t.x": {"1": _value(6, 3.0, table="other")},
    }
    both = projected([("dev", values), ("dev-2", values)])
    left = without(both, {("dev", "t"), ("nobody", "other")})
    assert _told(left) == {
        ("dev", "t.x", "1"): 3.0,
        ("dev-2", "t.a", "1"): 1.0,
        ("dev-2", "t.a", "2"): 2.0,
        ("dev-2", "t.x", "1"): 3.0,
    }
    assert without(both, set()) is both


def test_seals_of_older_builds_can_still_be_closed() -> None:
    values = {"t.c": {"1": _value(5), "2": _value(6)}, "t.b": {"1": _value(7)}}
    today = projected([("dev", values)])
    by_value = [
        {name: row[name] for name in ("owner_id", "instance")}
        | {name: row[name][place] for name in row if isinstance(row[name], list)}
        for row in today.to_pylist()
        for place in range(len(row["key"]))
    ]
    for row in by_value:
        row["datapoint_id"] = str(UUID(bytes=row["datapoint_id"]))
    with_ids = pa.Table.from_pylist(by_value)
    told = [f'[{{"source":"edge.rows","datapoint_id":"{r["datapoint_id"]}"}}]' for r in by_value]
    place = with_ids.schema.get_field_index("datapoint_id")
    oldest = with_ids.set_column(place, "contributors", pa.array(told))
    for older in (with_ids, oldest):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, older.schema) as writer:
            writer.write_table(older)
        closed = decoded([sink.getvalue().to_pybytes()])
        for field in ("value_double", "ts", "datapoint_id", "source_table"):
            assert _told(closed, field) == _told(today, field)
        assert {*closed["identity"].to_pylist()} == {*today["identity"].to_pylist()}


def test_identities_of_neighbours_differ() -> None:
    first = projected([("dev-11", {"t.c": {"abcdefghij5": _value()}})])
    second = projected([("dev-1", {"1:t.c": {"abcdefghij5": _value()}})])
    assert first["identity"] != second["identity"]


def test_a_nul_is_shown_but_not_confused() -> None:
    table = projected([("dev", {"t.c": {"a\0": _value(), "a\ufffd": _value()}})])
    assert table["instance"].to_pylist() == ["a\ufffd", "a\ufffd"]
    assert len({*table["identity"].to_pylist()}) == 2
