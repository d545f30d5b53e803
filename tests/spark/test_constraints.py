"""The CHECK constraints of the datapoint tables guard them against every other writer."""

from datetime import UTC, date, datetime
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ilyama_assets.checks.rules import LINEAGE_RULE, OWNER_KINDS, OWNER_RULE
from ilyama_assets.tables import METRIC_DATAPOINT, STATE_DATAPOINT
from ilyama_resources.delta.data_files import TableContract
from ilyama_resources.delta.warehouse import Warehouse

PROVENANCES = ("observed", "calculated", "intended", "guessed", "", None)
KINDS = (*OWNER_KINDS, "global", "planet", "", None)
IDS = tuple(f"{kind}_id" for kind in OWNER_KINDS)
GOOD = {
    "datapoint_id": "00650817-4bfe-8400-ba23-d82891d426e5",
    "ts": datetime(2026, 4, 28, tzinfo=UTC),
    "owner_kind": "component",
    "component_id": "acme/one",
    "provenance": "observed",
    "source_rule": "edge.row_batch",
    "day": date(2026, 4, 28),
}
INTENDED = {"provenance": "intended", "event_id": "e", "source_rule": None}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    made = Warehouse(Path(tmp_path_factory.mktemp("warehouse")), "tests")
    for contract in (METRIC_DATAPOINT, STATE_DATAPOINT):
        made.ensure(contract)
    return made


def _insert(
    session: SparkSession, warehouse: Warehouse, contract: TableContract, row: dict[str, Any]
) -> None:
    rows = session.createDataFrame(pa.Table.from_pylist([row], contract.schema))
    location = str(warehouse.location(contract.name))
    rows.write.format("delta").mode("append").save(location)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"source_rule": None}, "lineage_rule"),
        ({"event_id": "e"}, "lineage_rule"),
        ({"provenance": None}, "lineage_rule"),
        ({"provenance": "guessed"}, "lineage_rule"),
        (INTENDED | {"source_rule": "r"}, "lineage_rule"),
        (INTENDED | {"event_id": None}, "lineage_rule"),
        ({"component_id": None}, "owner_rule"),
        ({"node_id": "n"}, "owner_rule"),
        ({"owner_kind": None}, "owner_rule"),
        ({"owner_kind": "global"}, "owner_rule"),
        ({"owner_kind": "planet", "component_id": None}, "owner_rule"),
    ],
)
def test_spark_refuses_a_row_that_breaks_a_rule(
    session: SparkSession, warehouse: Warehouse, changes: dict[str, Any], rule: str
) -> None:
    before = warehouse.version(METRIC_DATAPOINT.name)

    with pytest.raises(PySparkException, match=rule):
        _insert(session, warehouse, METRIC_DATAPOINT, GOOD | changes)

    assert warehouse.version(METRIC_DATAPOINT.name) == before


def test_the_states_are_guarded_like_the_metrics(
    session: SparkSession, warehouse: Warehouse
) -> None:
    for changes, rule in (
        ({"source_rule": None}, "lineage_rule"),
        ({"node_id": "n"}, "owner_rule"),
    ):
        with pytest.raises(PySparkException, match=rule):
            _insert(session, warehouse, STATE_DATAPOINT, GOOD | changes)


def test_spark_takes_rows_that_keep_the_rules(session: SparkSession, warehouse: Warehouse) -> None:
    location = str(warehouse.location(METRIC_DATAPOINT.name))
    before = session.read.format("delta").load(location).count()

    for changes in ({}, INTENDED, {"owner_kind": "global", "component_id": None}):
        _insert(session, warehouse, METRIC_DATAPOINT, GOOD | changes)

    assert session.read.format("delta").load(location).count() == before + 3


def test_the_lineage_rule_is_true_or_false_for_every_combination(session: SparkSession) -> None:
    names = ("provenance", "source_rule", "event_id")
    rows = [
        dict(zip(names, values, strict=True))
        for values in product(PROVENANCES, ("r", None), ("e", None))
    ]

    assert _evaluated(session, rows, LINEAGE_RULE) == [*map(_keeps_lineage, rows)]


def test_the_owner_rule_is_true_or_false_for_every_combination(session: SparkSession) -> None:
    rows = [
        dict(zip(("owner_kind", *IDS), values, strict=True))
        for values in product(KINDS, *(("x", None) for _ in IDS))
    ]

    assert _evaluated(session, rows, OWNER_RULE) == [*map(_keeps_owner, rows)]


def _keeps_lineage(row: dict[str, Any]) -> bool:
    has_rule, has_event = row["source_rule"] is not None, row["event_id"] is not None
    if row["provenance"] == "intended":
        return has_event and not has_rule
    return row["provenance"] in ("observed", "calculated") and has_rule and not has_event


def _keeps_owner(row: dict[str, Any]) -> bool:
    given = [name for name in IDS if row[name] is not None]
    if row["owner_kind"] == "global":
        return not given
    return row["owner_kind"] in OWNER_KINDS and given == [f"{row['owner_kind']}_id"]


def _evaluated(session: SparkSession, rows: list[dict[str, Any]], rule: str) -> list[bool | None]:
    schema = pa.schema([("number", pa.int64()), *((name, pa.string()) for name in rows[0])])
    numbered = [{"number": number, **row} for number, row in enumerate(rows)]
    frame = session.createDataFrame(pa.Table.from_pylist(numbered, schema))
    kept = frame.select("number", F.expr(rule).alias("kept")).orderBy("number")
    return [row.kept for row in kept.collect()]
