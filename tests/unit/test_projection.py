"""Current values travel in portions, and identities never meet."""

import pyarrow as pa

from ilyama_assets.drains.orders import Products, in_portions
from ilyama_assets.drains.projection import PORTION_ROWS, decoded, encoded, projected
from ilyama_protocol.intake.datapoints import DatapointKind
from ilyama_protocol.intake.outcomes import CurrentValue


def _value(ts: int = 0) -> CurrentValue:
    return CurrentValue(DatapointKind.METRIC, 1.5, ts, 7, "t")


def test_portions_joined_are_the_whole() -> None:
    values = {str(i): _value(i) for i in range(PORTION_ROWS + 5)}
    table = projected([("dev", {"t.c": values})])
    streams = list(encoded([table]))
    assert len(streams) == 2
    assert decoded(streams).equals(table)
    parts = list(in_portions(Products(current=streams, keys={"t.c": "metric"})))
    assert [part.current for part in parts] == [[stream] for stream in streams]
    assert [part.keys for part in parts] == [{"t.c": "metric"}, {}]


def test_a_seal_of_an_older_build_can_still_be_closed() -> None:
    today = projected([("dev", {"t.c": {"1": _value(5), "2": _value(6)}})])
    ids = today["datapoint_id"].to_pylist()
    place = today.schema.get_field_index("datapoint_id")
    told = [f'[{{"source":"edge.rows","datapoint_id":"{found}"}}]' for found in ids]
    older = today.set_column(place, "contributors", pa.array(told))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, older.schema) as writer:
        writer.write_table(older)
    assert decoded([sink.getvalue().to_pybytes()]).equals(today)


def test_no_values_are_no_rows() -> None:
    assert list(encoded([])) == []
    assert decoded([b""]).num_rows == 0


def test_identities_of_neighbours_differ() -> None:
    first = projected([("dev-11", {"t.c": {"abcdefghij5": _value()}})])
    second = projected([("dev-1", {"t.cabcdefghij": {"5": _value()}})])
    assert first["identity"] != second["identity"]


def test_a_nul_is_shown_but_not_confused() -> None:
    table = projected([("dev", {"t.c": {"a\0": _value(), "a\ufffd": _value()}})])
    assert table["instance"].to_pylist() == ["a\ufffd", "a\ufffd"]
    assert len(set(pa.Table.to_pydict(table)["identity"])) == 2
