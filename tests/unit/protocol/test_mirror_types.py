"""What becomes of a value in a device table depends on its column, and no digit is lost."""

import itertools
import json
from typing import Any

import pytest

from ilyama_protocol.fingerprint import METRIC_AFFINITIES, Affinity
from ilyama_protocol.mirror_types import (
    MirrorType,
    Mixed,
    ValueKind,
    fitted,
    is_of_kind,
    kinds_of,
    shared,
    shared_by,
    type_of,
    widened,
)

LONG, DOUBLE, TEXT = MirrorType
SMALL, BIG, ROUND, FRACTION, OTHER = ValueKind
A = Affinity
EXACT = 2**53


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (0, SMALL),
        (EXACT, SMALL),
        (-EXACT, SMALL),
        (EXACT + 1, BIG),
        (-(2**63), BIG),
        (1.0, ROUND),
        (-(2.0**63), ROUND),
        (2.0**63, FRACTION),
        (1e300, FRACTION),
        (0.5, FRACTION),
        (True, OTHER),
        ("1", OTHER),
        ([1], OTHER),
    ],
)
def test_a_value_has_a_kind(value: Any, kind: ValueKind) -> None:
    assert kinds_of([value, None]) == {kind}


@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        ([], set()),
        ([1, EXACT + 1, -1], {BIG}),
        ([1, -EXACT - 1], {BIG}),
        ([2.0, 0.5, 3.0], {FRACTION}),
        ([1, 2.0, "x", None], {SMALL, ROUND, OTHER}),
    ],
)
def test_of_many_values_those_kinds_are_told_that_need_most(
    values: list[Any], kinds: set[ValueKind]
) -> None:
    assert kinds_of(values) == kinds


@pytest.mark.parametrize(
    ("affinity", "kinds", "expected"),
    [
        (A.INTEGER, set(), LONG),
        (A.INTEGER, {OTHER}, LONG),
        (A.INTEGER, {SMALL, BIG, ROUND, OTHER}, LONG),
        (A.INTEGER, {SMALL, FRACTION, OTHER}, DOUBLE),
        (A.INTEGER, {BIG, FRACTION}, TEXT),
        (A.REAL, set(), DOUBLE),
        (A.REAL, {SMALL, ROUND, FRACTION, OTHER}, DOUBLE),
        (A.REAL, {SMALL, BIG, ROUND}, LONG),
        (A.REAL, {BIG, FRACTION}, TEXT),
        (A.TEXT, {SMALL}, TEXT),
        (A.BLOB, set(), TEXT),
        (A.NUMERIC, set(), DOUBLE),
        (A.NUMERIC, {SMALL, FRACTION, OTHER}, DOUBLE),
        (A.NUMERIC, {SMALL, BIG, OTHER}, LONG),
        (A.NUMERIC, {FRACTION, BIG}, TEXT),
        (None, set(), None),
        (None, {SMALL}, LONG),
        (None, {SMALL, BIG}, LONG),
        (None, {ROUND}, DOUBLE),
        (None, {SMALL, FRACTION}, DOUBLE),
        (None, {BIG, ROUND}, TEXT),
        (None, {BIG, FRACTION}, TEXT),
        (None, {SMALL, OTHER}, TEXT),
    ],
)
def test_a_column_has_the_type_of_its_affinity_or_of_its_values(
    affinity: Affinity | None, kinds: set[ValueKind], expected: MirrorType | None
) -> None:
    assert type_of(affinity, kinds) == expected


@pytest.mark.parametrize(
    ("current", "affinity", "kinds", "expected"),
    [
        (LONG, A.INTEGER, {BIG, ROUND, OTHER}, LONG),
        (LONG, A.INTEGER, {FRACTION}, DOUBLE),
        (DOUBLE, A.INTEGER, {SMALL, FRACTION}, DOUBLE),
        (DOUBLE, A.INTEGER, {BIG}, TEXT),
        (DOUBLE, A.REAL, {SMALL, OTHER}, DOUBLE),
        (DOUBLE, A.REAL, {BIG}, TEXT),
        (LONG, None, {SMALL, BIG}, LONG),
        (LONG, None, {ROUND}, DOUBLE),
        (LONG, None, {FRACTION}, DOUBLE),
        (LONG, None, {OTHER}, TEXT),
        (DOUBLE, None, {SMALL, FRACTION}, DOUBLE),
        (DOUBLE, None, {BIG}, TEXT),
        (DOUBLE, A.NUMERIC, {OTHER}, DOUBLE),
        (DOUBLE, A.NUMERIC, {BIG}, TEXT),
        (LONG, A.NUMERIC, {SMALL}, LONG),
        (TEXT, None, {SMALL, BIG, FRACTION, OTHER}, TEXT),
    ],
)
def test_a_column_that_cannot_hold_what_comes_wants_another_type(
    current: MirrorType, affinity: Affinity | None, kinds: set[ValueKind], expected: MirrorType
) -> None:
    assert widened(current, affinity, kinds) == expected


VALUES = [None, 1, EXACT + 1, 2.0, 1.5, 1e300, True, "x", {"b": 1, "a": [None]}]
NESTED = '{"a":[null],"b":1}'


@pytest.mark.parametrize(
    ("kind", "affinity", "expected"),
    [
        (LONG, A.INTEGER, [None, 1, EXACT + 1, 2, None, None, None, None, None]),
        (DOUBLE, A.REAL, [None, 1.0, float(EXACT), 2.0, 1.5, 1e300, None, None, None]),
        (TEXT, A.TEXT, [None, None, None, None, None, None, "true", "x", NESTED]),
        (
            TEXT,
            A.NUMERIC,
            [None, "1", "9007199254740993", "2.0", "1.5", "1e+300", None, None, None],
        ),
        (
            TEXT,
            A.INTEGER,
            [None, "1", "9007199254740993", "2.0", "1.5", "1e+300", None, None, None],
        ),
        (
            TEXT,
            None,
            [None, "1", "9007199254740993", "2.0", "1.5", "1e+300", "true", "x", NESTED],
        ),
    ],
)
def test_a_value_is_held_as_its_column_holds_it(
    kind: MirrorType, affinity: Affinity | None, expected: list[Any]
) -> None:
    found = fitted(VALUES, kind, affinity)

    assert found == expected
    assert [*map(type, found)] == [*map(type, expected)]


NUMBERS = [0, -1, EXACT, EXACT + 1, 2**63 - 1, -(2**63), 2.0, 0.5, 5e-324, 2.0**63, 1e300]


@pytest.mark.parametrize("affinity", sorted(METRIC_AFFINITIES))
def test_no_number_is_lost_in_a_column_of_numbers(affinity: Affinity) -> None:
    for values in itertools.combinations(NUMBERS, 3):
        kind = type_of(affinity, kinds_of(values))
        assert kind is not None
        held = fitted([*values], kind, affinity)
        assert [*values] == ([json.loads(text) for text in held] if kind is TEXT else held)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (A.INTEGER, A.INTEGER, A.INTEGER),
        (A.INTEGER, A.REAL, A.NUMERIC),
        (A.NUMERIC, A.REAL, A.NUMERIC),
        (A.TEXT, A.BLOB, A.TEXT),
        (A.TEXT, A.REAL, Mixed.MIXED),
        (A.BLOB, A.NUMERIC, Mixed.MIXED),
        (Mixed.MIXED, A.TEXT, Mixed.MIXED),
        (Mixed.MIXED, A.REAL, Mixed.MIXED),
        (None, A.REAL, A.REAL),
        (None, None, None),
    ],
)
def test_an_affinity_that_is_shared_holds_both(one: Any, other: Any, expected: Any) -> None:
    assert shared(one, other) == shared(other, one) == expected


def test_the_order_of_schemas_makes_no_difference() -> None:
    schemas = [{"v": A.INTEGER}, {"v": A.REAL, "w": A.BLOB}, {"v": A.TEXT}]

    assert shared_by(schemas) == shared_by(schemas[::-1]) == {"v": Mixed.MIXED, "w": A.BLOB}


def test_a_mixed_column_is_a_text_that_holds_all() -> None:
    values = ["x", 1, EXACT + 1, 0.5, True, {"a": 1}, None]

    assert type_of(Mixed.MIXED, {SMALL}) is TEXT
    held = ["x", "1", str(EXACT + 1), "0.5", "true", '{"a":1}', None]
    assert fitted(values, TEXT, Mixed.MIXED) == held


@pytest.mark.parametrize(
    ("value", "affinity", "expected"),
    [
        (1, A.INTEGER, True),
        (1.5, A.INTEGER, True),
        ("1", A.INTEGER, False),
        (True, A.REAL, False),
        ("1", A.TEXT, True),
        (1, A.TEXT, False),
        (None, A.TEXT, True),
        (1, None, True),
    ],
)
def test_a_value_is_of_the_kind_that_its_schema_says(
    value: Any, affinity: Affinity | None, expected: bool
) -> None:
    assert is_of_kind(value, affinity) is expected
