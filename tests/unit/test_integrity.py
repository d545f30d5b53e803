"""Each integrity check of a drain can fail, and says where."""

from typing import Any

import pyarrow as pa
import pytest

from ilyama_assets.drains.encoding import Encoder
from ilyama_assets.drains.integrity import TaskIntegrity, split_by_rules
from ilyama_assets.drains.orders import Findings, Products
from ilyama_assets.drains.planning import Plan
from ilyama_assets.drains.sealing import (
    IntegrityReport,
    decode_seal,
    encode_seal,
    integrity_of,
    make_seal,
)
from ilyama_assets.tables import QUARANTINED_DATAPOINTS
from ilyama_protocol.intake.outcomes import Origin
from tests.unit.intake.traffic import B, batch, change, taken

Tables = dict[str, list[pa.Table]]


def _tables(*payloads: bytes) -> Tables:
    encoded = Encoder(1, Origin.LIVE).encode(taken(*payloads).decisions.outcomes)
    return {name: [table] for name, table in encoded.items()}


def _ordinary() -> Tables:
    """Two batches, of which the second repeats a row, and a rejection."""
    first = [change(1, row={"v": 1, "w": "on"}), change(2, row={"v": 2, "w": "off"})]
    return _tables(batch(*first), batch(first[1], change(3, row={"v": 3, "w": ""})), b"{")


def _with(tables: Tables, table: str, column: str, values: list[Any]) -> Tables:
    """The tables with one column told otherwise."""
    (held,) = tables[table]
    place = held.column_names.index(column)
    kind = held.schema.field(column).type
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    changed = held.set_column(place, column, pa.array(values, plain))
    return tables | {table: [changed]}


def _findings(tables: Tables) -> Findings:
    integrity = TaskIntegrity()
    integrity.inspect(tables)
    return integrity.findings


def test_an_ordinary_drain_has_nothing_to_complain_of() -> None:
    assert _findings(_ordinary()) == Findings(messages=3)


@pytest.mark.parametrize("sort", ["received", "new", "duplicate", "rejected", "staged"])
def test_rows_that_do_not_add_up_are_found(sort: str) -> None:
    tables = _ordinary()
    counts = tables["batch_ledger"][0][f"rows_{sort}"].to_pylist()
    counts[1] += 1

    found = _findings(_with(tables, "batch_ledger", f"rows_{sort}", counts))

    assert found.unbalanced == ["segment segment position 1"]


@pytest.mark.parametrize("sort", ["conflict", "below_floor"])
def test_the_counts_of_kinds_of_duplicates_are_no_part_of_the_balance(sort: str) -> None:
    tables = _with(_ordinary(), "batch_ledger", f"rows_{sort}", [1, 1, 1])

    assert _findings(tables).unbalanced == []


def test_a_repeated_key_is_found() -> None:
    found = _findings(_with(_ordinary(), "row_changes", "commit_seq", [1, 2, 2]))

    (key,) = found.repeated_keys
    assert '"commit_seq":2' in key


@pytest.mark.parametrize(
    "payloads",
    [
        [batch(change(2), change(1))],
        [batch(change(1, pk=1), change(1, pk=2))],
        [batch(change(1)), batch(change(1), epoch=B), batch(change(2))],
        [batch(change(1)), batch(change(1), table="valves")],
    ],
    ids=["falling numbers", "one number, two rows", "epochs in turn", "tables in turn"],
)
def test_unique_keys_in_any_order_are_no_breach(payloads: list[bytes]) -> None:
    assert _findings(_tables(*payloads)).repeated_keys == []


def test_a_key_that_repeats_far_away_is_found() -> None:
    apart = _tables(batch(change(1)), batch(change(9), epoch=B), batch(change(5)))

    found = _findings(_with(apart, "row_changes", "commit_seq", [1, 9, 1]))

    assert len(found.repeated_keys) == 1


@pytest.mark.parametrize("table", ["metric_datapoint", "state_datapoint"])
def test_two_datapoints_of_one_series_and_moment_are_found(table: str) -> None:
    tables = _ordinary()
    (points,) = tables[table]
    doubled = pa.concat_tables([points, points.slice(1, 1)])

    assert _findings(tables | {table: [points, points.slice(1, 1)]}) == _findings(
        tables | {table: [doubled]}
    )
    assert _findings(tables | {table: [doubled]}).repeated_points == {
        table: [points["datapoint_id"][1].as_py()]
    }


BREACHES = [
    ("source_rule", "lineage_rule"),
    ("provenance", "lineage_rule"),
    ("component_id", "owner_rule"),
    ("owner_kind", "owner_rule"),
]


@pytest.mark.parametrize(("column", "rule"), BREACHES)
def test_points_that_break_a_rule_are_split_off_to_quarantine(column: str, rule: str) -> None:
    tables = _ordinary()
    (points,) = tables["metric_datapoint"]
    values = points[column].to_pylist()
    values[1] = None
    integrity = TaskIntegrity()

    split = split_by_rules(_with(tables, "metric_datapoint", column, values))
    integrity.inspect(split)

    (held,) = split["quarantined_datapoints"]
    assert held.schema.equals(QUARANTINED_DATAPOINTS.schema)
    assert [(row["value"], row["kind"], row["reason"]) for row in held.to_pylist()] == [
        ("2.0", "metric", rule)
    ]
    assert split["metric_datapoint"][0]["value"].to_pylist() == [1.0, 3.0]
    assert split["state_datapoint"][0].equals(tables["state_datapoint"][0])
    assert integrity.findings.quarantined == {rule: 1}
    assert integrity.findings.rule_breaches == {}


def test_a_point_that_breaks_both_rules_is_set_apart_once() -> None:
    tables = _with(_ordinary(), "state_datapoint", "source_rule", [None] * 3)
    tables = _with(tables, "state_datapoint", "owner_kind", [None] * 3)

    split = split_by_rules(tables)

    assert split["quarantined_datapoints"][0]["reason"].to_pylist() == ["lineage_rule"] * 3
    assert "state_datapoint" not in split


def test_points_already_in_quarantine_stay_there() -> None:
    tables = _with(_ordinary(), "metric_datapoint", "source_rule", [None] * 3)
    once = split_by_rules(tables)
    integrity = TaskIntegrity()

    twice = split_by_rules(_with(once, "state_datapoint", "owner_kind", [None] * 3))
    integrity.inspect(twice)

    assert twice["quarantined_datapoints"][0].num_rows == 6
    assert integrity.findings.quarantined == {"lineage_rule": 3, "owner_rule": 3}


def test_no_point_is_lost_when_a_table_comes_in_parts() -> None:
    tables = _ordinary()
    whole = _with(tables, "metric_datapoint", "source_rule", ["r", None, "r"])["metric_datapoint"]
    parts = [whole[0].slice(0, 1), whole[0].slice(1)]

    split = split_by_rules(tables | {"metric_datapoint": parts})

    assert pa.concat_tables(split["metric_datapoint"])["value"].to_pylist() == [1.0, 3.0]


@pytest.mark.parametrize(("column", "rule"), BREACHES)
def test_a_breach_that_was_not_split_off_is_found(column: str, rule: str) -> None:
    broken = _with(_ordinary(), "metric_datapoint", column, [None] * 3)

    assert _findings(broken).rule_breaches == {rule: 3}


def test_breaches_of_both_tables_are_counted_together() -> None:
    broken = _with(_ordinary(), "metric_datapoint", "source_rule", [None] * 3)
    broken = _with(broken, "state_datapoint", "source_rule", [None] * 3)

    assert _findings(broken).rule_breaches == {"lineage_rule": 6}


@pytest.mark.parametrize(
    ("report", "breaches"),
    [
        (IntegrityReport(3, 3, [], [], {}), []),
        (IntegrityReport(3, 2, [], [], {}), ["3 messages were received, 2 accounted for"]),
        (IntegrityReport(1, 1, ["here"], [], {}), ["rows do not add up at here"]),
        (IntegrityReport(1, 1, [], ["k"], {}), ["row keys are not unique: k"]),
        (IntegrityReport(1, 1, [], [], {"owner_rule": 2}), ["2 rows break owner_rule"]),
        (IntegrityReport(1, 1, [], [], {}, [], {"t": ["i"]}), ["ids in t are not unique: i"]),
    ],
)
def test_a_report_says_what_does_not_hold(report: IntegrityReport, breaches: list[str]) -> None:
    assert report.breaches == breaches


def test_the_findings_of_all_tasks_are_joined() -> None:
    one = Findings(2, ["a"], ["k"], {"owner_rule": 1}, {"kind_mismatch": 1})
    one.repeated_points, more = {"t": ["i"]}, {"t": ["j"], "s": ["k"]}
    two = Findings(3, ["b"], [], {"owner_rule": 1, "lineage_rule": 4}, {"kind_mismatch": 2})

    two.repeated_points = more
    seal = make_seal([Products(findings=one), Products(findings=two)], Plan([], []))

    assert integrity_of(seal, received=5) == IntegrityReport(
        5,
        5,
        ["a", "b"],
        ["k"],
        {"owner_rule": 2, "lineage_rule": 4},
        repeated_points={"t": ["i", "j"], "s": ["k"]},
    )
    assert seal.findings.quarantined == {"kind_mismatch": 3}
    assert decode_seal(encode_seal(seal)) == seal
