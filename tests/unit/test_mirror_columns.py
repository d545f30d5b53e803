"""The columns of a device table: those that are there stay, new ones follow."""

import pytest

from ilyama_assets.mirrors.columns import continued_columns, only_adds, renewed_columns
from ilyama_assets.mirrors.writing import sql_text
from ilyama_protocol.fingerprint import Affinity
from ilyama_protocol.mirror_names import LONGEST_NAME
from ilyama_protocol.mirror_types import MOST_COLUMNS, MirrorType, Mixed, ValueKind
from ilyama_resources.delta.device_tables import Mirror, MirrorColumn

V = MirrorColumn("v", "v", Affinity.INTEGER, MirrorType.LONG)
LOOSE = MirrorColumn("x", "x", None, MirrorType.LONG)


def test_new_columns_come_after_those_that_are_there() -> None:
    planned = continued_columns(
        [V], {"w": Affinity.TEXT, "v": Affinity.INTEGER}, {"b": {ValueKind.SMALL}, "a": set()}
    ).columns

    assert planned == [
        V,
        MirrorColumn("w", "w", Affinity.TEXT, MirrorType.TEXT),
        MirrorColumn("b", "b", None, MirrorType.LONG),
    ]
    assert only_adds([V], planned)


def test_a_column_that_must_change_wants_the_table_made_anew() -> None:
    by_value = continued_columns([V, LOOSE], {}, {"x": {ValueKind.OTHER}}).columns
    by_fraction = continued_columns([V, LOOSE], {}, {"v": {ValueKind.FRACTION}}).columns
    by_schema = continued_columns([V, LOOSE], {"x": Affinity.INTEGER}, {}).columns

    assert not only_adds([V, LOOSE], by_value)
    assert not only_adds([V, LOOSE], by_fraction)
    assert not only_adds([V, LOOSE], by_schema)


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (Affinity.TEXT, (Mixed.MIXED, MirrorType.TEXT)),
        (Affinity.REAL, (Affinity.NUMERIC, MirrorType.DOUBLE)),
    ],
)
def test_devices_that_disagree_want_the_table_made_anew(
    other: Affinity, expected: tuple[object, MirrorType]
) -> None:
    planned = continued_columns([V], {"v": other}, {}).columns

    assert not only_adds([V], planned)
    assert (planned[0].affinity, planned[0].type) == expected
    assert continued_columns(planned, {"v": Affinity.INTEGER}, {}).columns == planned


def test_a_table_made_anew_has_the_types_of_what_it_holds() -> None:
    wide = LOOSE._replace(type=MirrorType.TEXT)

    assert renewed_columns([wide], {}, {"x": {ValueKind.SMALL}}).columns == [LOOSE]
    assert renewed_columns([wide], {}, {}).columns == [wide]


def test_a_table_has_no_more_columns_than_it_can_bear_and_tells_those_it_leaves_out() -> None:
    many = {f"c{number:04}": {ValueKind.SMALL} for number in range(MOST_COLUMNS + 5)}
    unknown: dict[str, set[ValueKind]] = {"nothing is known of it": set()}

    planned, left_out = continued_columns([V], {}, many | unknown)

    assert len(planned) == MOST_COLUMNS
    assert left_out == [*many][MOST_COLUMNS - 1 :]
    assert continued_columns(planned, {}, {"v": {ValueKind.SMALL}}).left_out == []


def test_a_column_whose_name_is_too_long_is_left_out_and_told() -> None:
    longest, longer = "n" * LONGEST_NAME, "n" * (LONGEST_NAME + 1)

    planned, left_out = continued_columns([V], dict.fromkeys((longer, longest), Affinity.TEXT), {})

    assert [column.original for column in planned] == ["v", longest]
    assert left_out == [longer]


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("plain1", "'plain1'"),
        ("it's", r"'it\u0027s'"),
        ("a\\", r"'a\u005c'"),
        ("\u00e9\U0001f600", r"'\u00e9\ud83d\ude00'"),
    ],
)
def test_no_text_can_leave_its_literal(text: str, literal: str) -> None:
    assert sql_text(text) == literal


def test_devices_without_a_project_share_a_place_that_no_project_has() -> None:
    assert Mirror("pumps").name == "device_tables/projectless/pumps"
    assert Mirror("pumps", "less").name == "device_tables/project-less/pumps"
    assert Mirror("..", "../..").name == "device_tables/project-~2E~2E~2F~2E~2E/~2E~2E"
