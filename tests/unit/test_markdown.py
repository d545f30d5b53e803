"""Words of devices in the metadata of assets are shown, and are no markup."""

import re
from datetime import UTC, datetime
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ilyama_assets.markdown import markdown_table, plain
from ilyama_assets.review_report import review_table
from ilyama_resources.postgres.governance.open_reviews import OpenSchema


def test_what_would_be_markup_is_shown_as_it_is() -> None:
    assert plain("a|b<img>[x](y)\n") == r"a\|b\<img\>\[x\](y) "


LINKS = [
    re.compile(r"(https?://|www(?=\.))([-.\w]+)([^ \t\r\n]*)", re.IGNORECASE),
    re.compile(r"([-.\w+]+)@([-\w]+(?:\.[-\w]+)+)"),
]
"""What the UI's Markdown makes links of, in every text that is no code."""


def _told(words: str) -> list[tuple[str, str]]:
    """The kinds and contents of what a reader sees in a cell of a table."""
    page = markdown_table([{"a": words, "b": "end"}], otherwise="").value
    tokens = MarkdownIt("commonmark").enable("table").parse(page or "")
    *_, cell, _ = [token for token in tokens if token.type == "inline"]
    return [(child.type, child.content) for child in cell.children or []]


@pytest.mark.parametrize(
    "words",
    [
        "https://evil.example/login",
        "see HTTP://evil.example|x",
        "www.evil.example",
        "(WWW.evil.example)",
        "a@evil.example",
        "mailto:a@@evil.example`@`",
        r"\https\://evil.example\|",
        "&lt;b&gt; &amp; &#64;",
        "<https://evil.example>",
        "[x](//evil.example)",
    ],
)
def test_words_of_devices_are_shown_as_they_are_and_are_no_links(words: str) -> None:
    told = _told(words)

    assert "".join(content for _, content in told) == words
    assert {kind for kind, _ in told} <= {"text", "text_special", "code_inline"}
    by_kind = groupby(told, key=lambda child: child[0] == "code_inline")
    texts = ["".join(text for _, text in parts) for is_code, parts in by_kind if not is_code]
    assert not any(link.search(text) for link in LINKS for text in texts)


@given(st.text("ahtpsw:/.@`\\|&;<>[]()*_~#!"))
def test_whatever_devices_write_nothing_of_it_is_markup_or_a_link(words: str) -> None:
    test_words_of_devices_are_shown_as_they_are_and_are_no_links(words)


def test_a_table_without_rows_is_a_sentence() -> None:
    assert markdown_table([], otherwise="Nothing.").value == "Nothing."


def test_numbers_stand_to_the_right() -> None:
    lines = markdown_table([{"name": "a", "count": 1200}], otherwise="").value.splitlines()
    assert lines == ["| name | count |", "| --- | ---: |", "| a | 1,200 |"]


def test_devices_that_send_one_schema_are_one_line() -> None:
    moment = datetime(2026, 5, 1, 12, tzinfo=UTC)
    schema = OpenSchema("pumps", "ab" * 32, None, "breaking", 7, 3000, moment, 12_000)
    *_, line = review_table([schema]).value.splitlines()
    assert line == "| 7 | pumps | - | breaking | 3,000 | 12,000 | 2026-05-01 12:00 | abababababab |"
