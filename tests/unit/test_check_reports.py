"""A check tells how much it found, some of it, and no more of a text than anybody reads."""

from dagster import TableMetadataValue

from ilyama_assets.checks.reports import SAMPLE_ROWS, report, table_of
from ilyama_assets.markdown import LONGEST_CELL


def test_a_text_that_nobody_reads_to_its_end_is_cut_in_every_report() -> None:
    long = "x" * 512 * 1024

    found = report(asset="a", check="c", passed=False, counts={}, sample=[{"k": long}], advice="")

    table = found.metadata["offending rows"]
    assert isinstance(table, TableMetadataValue)
    assert [record.data for record in table.records] == [{"k": "x" * LONGEST_CELL + "…"}]


def test_what_is_no_text_is_told_as_one_and_numbers_stay_numbers() -> None:
    rows = [{"n": 3, "nothing": None, "yes": True, "list": ["x" * LONGEST_CELL]}] * (
        SAMPLE_ROWS + 1
    )

    first, *others = [record.data for record in table_of(rows).records]

    assert first == {"n": 3, "nothing": None, "yes": True, "list": "['" + "x" * 498 + "…"}
    assert len(others) == SAMPLE_ROWS - 1
