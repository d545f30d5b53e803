"""What came of a scenario is told apart from what had to come of it."""

from typing import Any

import pytest
from typer.testing import CliRunner

from ilyama_service.cli.app import app
from ilyama_service.simulator.scenarios.catalog import SCENARIOS
from ilyama_service.simulator.scenarios.findings import Findings, compared, payload_hash
from ilyama_service.simulator.scenarios.script import Step
from tests.memory_platform import MemoryPlatform
from tests.oracle import Event

SCENARIO = "cloned_device"
Line = dict[str, Any]


@pytest.fixture
def steps() -> list[Step]:
    return SCENARIOS[SCENARIO].steps()


@pytest.fixture
def lines(steps: list[Step]) -> list[Line]:
    platform = MemoryPlatform()
    platform.drain([Event(step.topic, step.payload, 10**15) for step in steps])
    return platform.tables["batch_ledger"]


def findings(steps: list[Step], lines: list[Line]) -> Findings:
    return compared(SCENARIO, steps, device="d", lines=lines)


def ends(found: Findings) -> list[tuple[str, str, int]]:
    return [(end.expected, end.found, end.messages) for end in found.ends]


def test_a_scenario_that_came_to_its_ends_is_clean(steps: list[Step], lines: list[Line]) -> None:
    found = findings(steps, lines[::-1])

    assert found.is_clean
    assert ends(found) == [
        ("accepted", "accepted (3 new)", 1),
        ("duplicate in conflict", "duplicate (3 duplicate, 3 in conflict)", 2),
    ]


def test_a_message_without_a_line_has_come_to_no_end(steps: list[Step], lines: list[Line]) -> None:
    found = findings(steps, lines[:-1])

    assert (found.is_clean, found.is_complete) == (False, False)
    assert ("duplicate in conflict", "nothing yet", 1) in ends(found)


def test_a_delivery_that_was_repeated_on_the_way_is_no_fault(
    steps: list[Step], lines: list[Line]
) -> None:
    again = lines[-1] | {"received_at": 2 * 10**15}

    assert findings(steps, [*lines, again]).is_clean


@pytest.mark.parametrize(
    "other",
    [
        {"outcome": "staged"},
        {"outcome": "rejected", "code": "invalid_row"},
        {"rows_new": 2},
        {"rows_duplicate": 1},
        {"rows_conflict": 1},
        {"topic": "acme/another/sync/rows/batch"},
        {"origin": "day"},
    ],
    ids=str,
)
def test_another_end_is_noticed(steps: list[Step], lines: list[Line], other: Line) -> None:
    assert not findings(steps, [lines[0] | other, *lines[1:]]).is_clean


def test_a_rejection_with_another_code_is_noticed() -> None:
    [step, _] = SCENARIOS["redelivered_rejection"].steps()
    line = {"topic": step.topic, "payload_sha256": payload_hash(step), "origin": "live"}
    place = {"received_at": 1, "segment_id": "s", "position": 0}
    right = {"outcome": "rejected", "code": "unsupported_format_version"}

    assert findings([step], [line | place | right]).is_clean
    assert not findings([step], [line | place | right | {"code": "invalid_json"}]).is_clean


def test_what_is_staged_is_told_with_its_reason() -> None:
    _, step = SCENARIOS["schema_additive"].steps()
    line = {"topic": step.topic, "payload_sha256": payload_hash(step), "origin": "live"}
    place = {"received_at": 1, "segment_id": "s", "position": 0}
    counts = {"rows_new": 0, "rows_staged": 2, "rows_duplicate": 0, "rows_conflict": 0}
    staged = {"outcome": "staged", "code": "schema_review"}

    found = findings([step], [line | place | counts | staged])

    assert found.is_clean
    assert ends(found) == [("accepted or staged", "staged for schema_review (2 staged)", 1)]


def test_the_list_has_every_scenario_with_its_ends() -> None:
    told = CliRunner().invoke(app, ["simulate", "--list", "--json"]).stdout.splitlines()

    assert len(told) == len(SCENARIOS)
    assert '"ends":"1 accepted, 2 duplicate_batch_seq"' in "".join(told)
