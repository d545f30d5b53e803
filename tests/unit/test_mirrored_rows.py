"""Changes become rows of a device table, in columns that hold all numbers of theirs."""

import json
from typing import Any

import pyarrow as pa
import pytest

from ilyama_assets.mirrors.columns import renewed_columns
from ilyama_assets.transforms.mirrored_rows import Bound, kinds_in_table, mirrored_table
from ilyama_protocol.fingerprint import METRIC_AFFINITIES, Affinity
from ilyama_protocol.mirror_types import ValueKind
from tests.oracle.device_tables import Column, DeviceTables
from tests.oracle.records import RowChange

BIG = 2**53 + 1
SCHEMA = "a" * 64
TEXTS = ("device_id", "op", "row", "pk", "source_pk_hash", "journal_epoch", "batch_id")


def _changes(*rows: dict[str, Any] | None) -> pa.Table:
    told = [
        dict.fromkeys(TEXTS, "x")
        | {"op": "delete" if row is None else "update", "bound": True, "schema_hash": SCHEMA}
        | {"row": None if row is None else json.dumps(row), "source_pk_hash": str(number)}
        | {"epoch_rank": 0, "commit_seq": number, "received_at": 0, "drain_id": 1}
        for number, row in enumerate(rows)
    ]
    table = pa.Table.from_pylist(told)
    moments = table["received_at"].cast(pa.timestamp("us", tz="UTC"))
    at = table.schema.get_field_index("received_at")
    return table.set_column(at, "received_at", moments)


def test_the_kinds_of_columns_are_found_but_for_those_that_are_settled() -> None:
    bound = Bound({SCHEMA: {"v": Affinity.INTEGER, "w": Affinity.TEXT}})
    changes = _changes({"v": 1, "w": "x"}, None, {"v": 0.5, "unbound": 1})

    assert kinds_in_table(changes, bound, frozenset({"w"})) == {
        "v": {ValueKind.SMALL, ValueKind.FRACTION}
    }


@pytest.mark.parametrize("affinity", sorted(METRIC_AFFINITIES))
@pytest.mark.parametrize("values", [[1, 2.0], [1, 0.5], [BIG, 1], [BIG, 2.0], [BIG, 0.5], ["x", 1]])
def test_columns_of_numbers_hold_what_the_oracle_says(
    affinity: Affinity, values: list[Any]
) -> None:
    affinities = {"v": affinity}
    bound = Bound({SCHEMA: affinities})
    changes = _changes(*({"v": value} for value in values))
    columns = renewed_columns([], affinities, kinds_in_table(changes, bound, frozenset())).columns

    rows = mirrored_table(changes, columns, bound).to_pylist()

    expected = _expected(values, affinity, columns[0].type.value)
    assert [repr(row["v"]) for row in rows] == [*map(repr, expected)]


def _change(number: int) -> RowChange:
    return RowChange(
        device_id="x",
        source_table="t",
        journal_epoch="x",
        source_pk_hash=str(number),
        commit_seq=number,
        op="update",
        pk="{}",
        row=None,
        schema_hash=SCHEMA,
        late=False,
        synthetic=False,
        batch_id="x",
        row_index=0,
        received_at=0,
        day="2026-01-01",
    )


def _expected(values: list[Any], affinity: Affinity, kind: str) -> list[Any]:
    oracle = DeviceTables(lambda _device, _epoch: 0)
    for number, value in enumerate(values):
        oracle.observe(_change(number), row={"v": value}, affinities={"v": affinity.value})
    rows = oracle.rows("t", {"v": Column(affinity.value, kind)})
    return [rows["x", str(number)].get("v") for number in range(len(values))]
