"""Names of device tables are safe, different from one another, and tell what they came from."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ilyama_protocol.mirror_names import column_name, directory_name, folded

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
FORBIDDEN_IN_DELTA = set(" ,;{}()\n\t=`.")


@pytest.mark.parametrize(
    ("original", "name"),
    [
        ("level", "level"),
        ("Level_2", "Level_2"),
        ("two words", "two%20words"),
        ("100%", "100%25"),
        ("a.b", "a%2Eb"),
        ("\u00e9", "\u00e9"),
        ("\U0001f600", "%F0%9F%98%80"),
        ("", "%"),
        ("device_id", "%64evice_id"),
        ("Device_ID", "%44evice_ID"),
        ("__pk", "%5F_pk"),
        ("_pk", "_pk"),
    ],
)
def test_a_column_is_named_so_that_a_person_can_read_it(original: str, name: str) -> None:
    assert column_name(original) == name


def test_names_that_differ_in_case_only_are_kept_apart() -> None:
    assert column_name("mode", {folded("Mode")}) == "%6D%6F%64%65"
    assert column_name("\u017f", {folded("S")}) == "%C5%BF"


def _original(column: str) -> str:
    """The name that a column has on the device, read as the page of tables says."""
    if column == "%":
        return ""
    escaped = re.compile(rb"%([0-9A-F]{2})")
    return escaped.sub(lambda found: bytes.fromhex(found[1].decode()), column.encode()).decode()


@given(st.lists(TEXTS, max_size=8, unique=True))
def test_all_names_of_a_table_are_different_and_reversible(originals: list[str]) -> None:
    taken: list[str] = []
    for original in originals:
        taken.append(column_name(original, {*map(folded, taken)}))

    assert len({*map(folded, taken), "device_id"}) == len(originals) + 1
    assert [*map(_original, taken)] == originals
    assert not any(name.startswith("__") or FORBIDDEN_IN_DELTA & {*name} for name in taken)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=128), unique=True))
def test_directories_are_safe_and_different(texts: list[str]) -> None:
    names = [*map(directory_name, texts)]

    assert len({*names}) == len(texts)
    assert all(name.isascii() and not {*name} & {"/", ".", "%", "\0"} for name in names)
    assert max(map(len, names), default=0) <= 200


@pytest.mark.parametrize(
    ("text", "name"),
    [("pumps", "pumps"), ("../x", "~2E~2E~2Fx"), ("a~b", "a~7Eb"), ("\u00e9", "~C3~A9")],
)
def test_a_directory_is_named_so_that_a_person_can_read_it(text: str, name: str) -> None:
    assert directory_name(text) == name


def test_a_long_name_ends_in_its_hash() -> None:
    first, second = directory_name("\U0001f600" * 128), directory_name("\U0001f600" * 127 + "x")

    assert first != second
    assert "~~" in first
    assert "~~" not in directory_name("~" * 60)
