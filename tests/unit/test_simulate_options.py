"""`ilyama simulate` refuses what it would ignore, and lists names that can be typed."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from ilyama_service.cli.app import app
from ilyama_service.simulator.scenarios.catalog import SCENARIOS
from ilyama_service.simulator.scenarios.script import Script

SCENARIO = ["--scenario", "redelivery"]


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        ([*SCENARIO, "--verify"], "--verify"),
        ([*SCENARIO, "--devices", "3"], "--devices"),
        ([*SCENARIO, "--seed", "0"], "--seed"),
        ([*SCENARIO, "--register"], "--register"),
        ([*SCENARIO, "20260428"], "a run"),
        (["--list", *SCENARIO], "--scenario"),
        (["--list", "--verify"], "--verify"),
        (["--verify", "--rate", "3"], "--rate"),
        (["20260428"], "a run"),
    ],
    ids=" ".join,
)
def test_an_option_that_would_be_ignored_is_refused(words: list[str], refused: str) -> None:
    told = CliRunner().invoke(app, ["simulate", *words])

    assert told.exit_code == 2
    assert refused in told.stderr


@pytest.mark.parametrize("slug", ["a#", "a+", "a/b", "$sys", "devices", "cdc"])
def test_a_slug_that_no_device_can_have_is_refused_before_anything_is_played(slug: str) -> None:
    told = CliRunner().invoke(app, ["simulate", *SCENARIO, "--slug", slug])

    assert told.exit_code == 2
    assert "cannot be the first level" in told.stderr


@pytest.mark.parametrize("columns", [None, "80", "100"])
def test_every_name_and_end_is_listed_whole(
    columns: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    command = [sys.executable, "-m", "ilyama_service.cli", "simulate", "--list"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    lines, words = told.splitlines(), set(told.replace(",", " ").split())
    assert [line for line in lines if not line.startswith(" ")] == [*SCENARIOS]
    ends = {word for scenario in SCENARIOS.values() for word in scenario.ends().split()}
    assert {end.rstrip(",") for end in ends} <= words


def test_what_nobody_hears_comes_before_something_that_is_heard() -> None:
    for scenario in SCENARIOS.values():
        steps = scenario.played_by(Script("order"))
        assert steps[-1].expected.outcome is not None
