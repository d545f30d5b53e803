"""Every bound column of a row change becomes a datapoint of the right kind."""

from typing import Any

import pytest

from ilyama_protocol.intake.datapoints import KIND_MISMATCH, Points
from tests.unit.intake.traffic import NOW, batch, change, columns, points_of, taken

METRIC, STATE = "metric", "state"
MISMATCH = "mismatch"


def _points(*rows: Any, **affinities: str) -> dict[str, Points]:
    """The datapoints of rows, by key; their columns are known when affinities are given."""
    changes = [change(seq, row=row) for seq, row in enumerate(rows)]
    return {p.key: p for p in points_of(taken(batch(*changes, schema=columns(**affinities))))}


@pytest.mark.parametrize(
    ("affinity", "value", "kind", "stored"),
    [
        ("INTEGER", 5, METRIC, 5.0),
        ("INTEGER", 2**53 + 1, METRIC, float(2**53)),
        ("REAL", -0.5, METRIC, -0.5),
        ("NUMERIC", 1e-5, METRIC, 1e-05),
        ("INTEGER", None, METRIC, None),
        ("TEXT", "on", STATE, "on"),
        ("TEXT", "", STATE, ""),
        ("BLOB", "AAEC", STATE, "AAEC"),
        ("TEXT", True, STATE, "true"),
        ("TEXT", {"b": 1, "a": [None]}, STATE, '{"a":[null],"b":1}'),
        ("BLOB", None, STATE, None),
        ("INTEGER", True, MISMATCH, "true"),
        ("REAL", "5", MISMATCH, '"5"'),
        ("NUMERIC", [1], MISMATCH, "[1]"),
        ("TEXT", 5, MISMATCH, "5"),
        ("BLOB", 0.5, MISMATCH, "0.5"),
    ],
)
def test_a_known_column_goes_by_its_affinity(
    affinity: str, value: Any, kind: str, stored: Any
) -> None:
    points = _points({"v": value}, v=affinity)["pumps.v"]

    assert points.values == [stored]
    assert points.quarantine_reason == (KIND_MISMATCH if kind == MISMATCH else None)
    if kind != MISMATCH:
        assert points.kind == kind


@pytest.mark.parametrize(
    ("value", "kind", "stored"),
    [
        (5, METRIC, 5.0),
        (-0.0, METRIC, -0.0),
        ("on", STATE, "on"),
        (True, STATE, "true"),
        (False, STATE, "false"),
        (None, STATE, None),
        ([1, {"b": 2, "a": 1}], STATE, '[1,{"a":1,"b":2}]'),
    ],
)
def test_an_unknown_column_goes_by_the_type_of_its_value(
    value: Any, kind: str, stored: Any
) -> None:
    points = _points({"v": value})["pumps.v"]

    assert (points.kind, repr(points.values)) == (kind, repr([stored]))


def test_a_column_of_mixed_values_is_split_by_fit() -> None:
    changes = [change(seq, row={"v": v}) for seq, v in enumerate([1, "two", None, 4])]

    fitting, misfits = points_of(taken(batch(*changes, schema=columns(v="REAL"))))

    assert (fitting.rows, fitting.values) == ([0, 2, 3], [1.0, None, 4.0])
    assert (misfits.rows, misfits.values) == ([1], ['"two"'])
    assert (misfits.kind, misfits.quarantine_reason) == (METRIC, KIND_MISMATCH)


def test_an_unknown_column_of_mixed_values_is_split_by_type() -> None:
    changes = [change(seq, row={"v": v}) for seq, v in enumerate([1, "two", None])]

    metrics, states = points_of(taken(batch(*changes)))

    assert (metrics.kind, metrics.rows, metrics.values) == (METRIC, [0], [1.0])
    assert (states.kind, states.rows, states.values) == (STATE, [1, 2], ["two", None])


def test_a_member_that_the_schema_does_not_name_is_not_bound() -> None:
    assert [*_points({"v": 1, "stray": 2}, v="REAL")] == ["pumps.v"]


@pytest.mark.parametrize(
    "rows",
    [[{"v": 1, "w": 2}, {"w": 4, "v": 3}], [{"v": 1, "w": 2}, {"v": 3}, {"w": 4}]],
    ids=["same members in another order", "other members"],
)
def test_every_row_gives_what_it_has(rows: list[dict[str, int]]) -> None:
    points = _points(*rows)

    for name in ("v", "w"):
        at = [i for i, row in enumerate(rows) if name in row]
        assert [*points[f"pumps.{name}"].rows] == at
        assert points[f"pumps.{name}"].values == [float(rows[i][name]) for i in at]


@pytest.mark.parametrize(
    ("op", "told"), [("insert", ["false"]), ("delete", ["true"]), ("update", [])]
)
def test_inserts_and_deletes_tell_whether_a_row_lives(op: str, told: list[str]) -> None:
    points = points_of(taken(batch(change(1, op=op))))

    assert [p.values for p in points if p.key == "pumps.__deleted"] == ([told] if told else [])


def test_a_delete_tells_nothing_of_the_columns() -> None:
    points = points_of(taken(batch(change(1, op="delete"))))

    assert [p.key for p in points] == ["pumps.__deleted"]


def test_a_column_of_the_platforms_name_is_told_from_the_platforms_own() -> None:
    points = points_of(taken(batch(change(1, op="insert", row={"__deleted": "mine"}))))

    assert {p.key: p.values for p in points} == {
        "pumps.__deleted": ["false"],
        "pumps.%5F_deleted": ["mine"],
    }


def test_duplicates_give_no_datapoints() -> None:
    met = taken(batch(change(1)), batch(change(1), change(2, row={"w": 1})))

    assert [(p.key, p.rows) for p in points_of(met)] == [("pumps.w", [1])]


def test_a_current_value_holds_from_its_rows_moment() -> None:
    met = taken(batch(change(1, row={"v": 1}), change(2, row={"v": 2}), change(3, pk="a/b")))

    value = met.current["pumps.v"]["1"]
    assert (value.value, value.ts, value.kind, value.source_table) == (
        2.0,
        NOW + 1,
        METRIC,
        "pumps",
    )
    assert met.current["pumps.mode"]["a%2Fb"].ts == NOW + 2


def test_a_value_that_does_not_fit_never_becomes_current() -> None:
    fitting, misfit = change(1, row={"v": 1}), change(2, row={"v": "two"})

    met = taken(batch(fitting, misfit, schema=columns(v="REAL")))

    assert met.current["pumps.v"]["1"].value == 1.0
