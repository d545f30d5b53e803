"""Words of devices in the metadata of assets are shown, and are no markup."""

from datetime import UTC, datetime

from ilyama_assets.markdown import markdown_table, plain
from ilyama_assets.review_report import review_table
from ilyama_resources.postgres.governance.open_reviews import OpenSchema


def test_what_would_be_markup_is_shown_as_it_is() -> None:
    assert plain("a|b<img>[x](y)\n") == r"a\|b\<img\>\[x\](y) "


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
