"""Device tables are taken up together as far as memory allows, however many there are."""

import pyarrow as pa

from ilyama_assets.mirrors.newest import tables_by_name
from ilyama_assets.mirrors.placing import Placing, Sort
from ilyama_assets.mirrors.taking_up import fitting_together
from ilyama_protocol.fingerprint import Affinity, SchemaColumn
from ilyama_protocol.intake.state import BoundSchema
from ilyama_resources.delta.device_tables import Mirror


def test_tables_that_fit_memory_together_are_one_portion_in_their_order() -> None:
    sizes = {"a": 3, "b": 4, "c": 3, "d": 11, "e": 0, "f": 10}
    portions = fitting_together(iter(sizes.items()), 10)
    assert [*portions] == [["a", "b", "c"], ["d"], ["e", "f"]]


def test_no_tables_are_no_portion() -> None:
    assert [*fitting_together(iter(()), 10)] == []


def test_each_table_gets_its_rows_as_they_came_also_when_it_has_none() -> None:
    rows = pa.table({"mirror": ["b", "a", "b", "c"], "v": [1, 2, 3, 4]})
    found = tables_by_name(rows, "mirror", ["a", "b", "none"])
    told = {name: table["v"].to_pylist() for name, table in found.items()}
    assert told == {"a": [2], "b": [1, 3], "none": []}
    assert found["none"].column_names == ["v"]


def test_what_schemas_bind_is_found_out_once_for_all_tables() -> None:
    column = SchemaColumn("v", Affinity.INTEGER, pk_ordinal=0, not_null=False)
    schema = BoundSchema(0, (column,))
    placing = Placing([Sort("d", "pumps", "hash", Mirror("pumps"), 0, schema, {})], {})
    assert placing.bound is placing.bound
    assert placing.devices_of(Mirror("pumps")) == ["d"]
