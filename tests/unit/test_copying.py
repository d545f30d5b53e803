"""Rows survive the text form of COPY, whatever they contain."""

import math
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ilyama_protocol.intake.outcomes import Outcome
from ilyama_resources.postgres.copying import _lines, _WrittenAhead, shown

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
ESCAPED = {"\\\\": "\\", "\\t": "\t", "\\n": "\n", "\\r": "\r"}


def _read(text: str) -> list[list[str | None]]:
    """Rows as Postgres reads them: tabs part fields, newlines part rows, `\\N` is null."""
    return [[_field(field) for field in line.split("\t")] for line in text.split("\n")[:-1]]


def _field(text: str) -> str | None:
    if text == "\\N":
        return None
    return re.sub(r"\\.", lambda found: ESCAPED[found.group()], text)


@given(st.lists(st.lists(TEXTS | st.none(), min_size=2, max_size=2), max_size=4))
def test_texts_and_nulls_come_back(rows: list[list[str | None]]) -> None:
    expected = [[None if value is None else shown(value) for value in row] for row in rows]

    assert _read(_lines(rows).read()) == expected


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, "\\N"),
        ("\\N", "\\\\N"),
        ("\\.", "\\\\."),
        ("", ""),
        ("a\tb\nc\rd\\e", "a\\tb\\nc\\rd\\\\e"),
        ("\0", "\ufffd"),
        ("\b\f\v\u2028é", "\b\f\v\u2028é"),
        (0, "0"),
        (2**63 - 1, "9223372036854775807"),
        (0.1, "0.1"),
        (-0.0, "-0.0"),
        (1e22, "1e+22"),
        (5e-324, "5e-324"),
        (math.inf, "inf"),
        (True, "True"),
        (date(2026, 4, 28), "2026-04-28"),
        (datetime(1, 1, 1, microsecond=1, tzinfo=UTC), "0001-01-01 00:00:00.000001+00:00"),
        (Outcome.ACCEPTED, "accepted"),
    ],
)
def test_a_value_is_written_as_postgres_reads_it(value: Any, written: str) -> None:
    assert _lines([[value]]).read() == f"{written}\n"


@pytest.mark.parametrize(
    ("text", "seen"), [("a\0b", "a\ufffdb"), ("\0\0", "\ufffd\ufffd"), ("", "")]
)
def test_a_nul_is_shown_by_a_character_that_postgres_can_hold(text: str, seen: str) -> None:
    assert shown(text) == seen


def test_what_is_written_ahead_is_read_whole() -> None:
    parts = [bytes([number]) * 70 for number in range(100)]
    with _WrittenAhead(iter(parts)) as file:
        read = b"".join(iter(lambda: file.read(33), b""))
    assert read == b"".join(parts)


def test_a_failure_of_the_writer_is_one_of_the_reader() -> None:
    def parts() -> Iterator[bytes]:
        yield b"first"
        raise MemoryError

    with _WrittenAhead(parts()) as file:
        assert file.read(100) == b"first"
        with pytest.raises(MemoryError):
            file.read(100)
