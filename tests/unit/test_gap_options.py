"""The options of `ilyama gaps`."""

import pytest
from typer.testing import CliRunner

from ilyama_service.cli.app import app


@pytest.mark.parametrize("words", [["--table", "pumps"], ["--telemetry"]], ids=str)
def test_gaps_of_journals_are_of_no_table_and_no_telemetry(words: list[str]) -> None:
    refused = CliRunner().invoke(app, ["gaps", "--kind", "rows", *words], env={"COLUMNS": "200"})
    assert (refused.exit_code, "--kind rows goes with no" in refused.output) == (2, True)
