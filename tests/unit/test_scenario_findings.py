"""What came of a scenario is told apart from what had to come of it."""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from typer.testing import CliRunner

from ilyama_protocol.intake.lineage_rulings import StagingReason
from ilyama_protocol.intake.outcomes import Outcome
from ilyama_protocol.rejections import RejectionCode
from ilyama_service.cli.app import app
from ilyama_service.simulator.scenarios.catalog import SCENARIOS
from ilyama_service.simulator.scenarios.expected import unheard
from ilyama_service.simulator.scenarios.findings import (
    Evidence,
    Findings,
    Listing,
    compared,
    is_as_expected,
    payload_hash,
)
from ilyama_service.simulator.scenarios.script import Script, Step
from tests.memory_platform import MemoryPlatform
from tests.oracle import Event
from tests.unit.scenario_evidence import evidence_of, heard

SCENARIO = "cloned_device"
Line = dict[str, Any]


def played(name: str) -> tuple[list[Step], MemoryPlatform]:
    """The messages of a scenario that are heard, and a platform that decided them in one drain."""
    steps = heard(SCENARIOS[name].steps())
    platform = MemoryPlatform()
    platform.drain([Event(step.topic, step.payload, 10**15) for step in steps])
    return steps, platform


@pytest.fixture
def evidence() -> Evidence:
    return evidence_of(played(SCENARIO)[1])


@pytest.fixture
def lines(evidence: Evidence) -> list[Line]:
    return [dict(line) for line in evidence.lines]


def ends(found: Findings) -> list[tuple[str, str, int]]:
    return [(end.expected, end.found, end.messages) for end in found.ends]


def found_in(lines: list[Line], evidence: Evidence) -> Findings:
    return compared(
        SCENARIO, SCENARIOS[SCENARIO].steps(), evidence._replace(lines=lines), device="d"
    )


def test_a_scenario_that_came_to_its_ends_is_clean(lines: list[Line], evidence: Evidence) -> None:
    found = found_in(lines[::-1], evidence)

    assert found.is_clean
    assert ends(found) == [
        ("accepted", "accepted (3 new)", 1),
        ("duplicate in conflict", "duplicate (3 duplicate, 3 in conflict)", 2),
    ]
    assert found.listings == [Listing("key conflicts", "3", "3", as_expected=True)]


def test_a_message_without_a_line_has_come_to_no_end(lines: list[Line], evidence: Evidence) -> None:
    found = found_in(lines[:-1], evidence)

    assert (found.is_clean, found.is_complete, found.undecided) == (False, False, 1)
    assert ("duplicate in conflict", "nothing yet", 1) in ends(found)


def test_a_delivery_that_was_repeated_on_the_way_is_no_fault(
    lines: list[Line], evidence: Evidence
) -> None:
    again = lines[-1] | {"received_at": 2 * 10**15}

    assert found_in([*lines, again], evidence).is_clean


@pytest.mark.parametrize(
    "other", [{"topic": "acme/another/sync/rows/batch"}, {"origin": "day"}], ids=str
)
def test_a_line_of_another_message_does_not_count(
    lines: list[Line], evidence: Evidence, other: Line
) -> None:
    assert not found_in([lines[0] | other, *lines[1:]], evidence).is_clean


def tampered(line: Line) -> Iterator[Line]:
    """A line of the ledger with every other outcome, code and count."""
    counts = [name for name in line if name.startswith("rows_")]
    yield from (line | {"outcome": str(other)} for other in Outcome if other != line["outcome"])
    codes = (None, *StagingReason, RejectionCode.INVALID_ROW, RejectionCode.INVALID_JSON)
    yield from (line | {"code": code} for code in codes if code != line["code"])
    if line["outcome"] == Outcome.STAGED:
        yield line | {
            "outcome": "accepted",
            "code": None,
            "rows_new": line["rows_staged"],
            "rows_staged": 0,
        }
    if line["outcome"] == Outcome.ACCEPTED:
        for reason in StagingReason:
            staged = {"outcome": "staged", "rows_new": 0, "rows_staged": line["rows_new"]}
            yield line | staged | {"code": str(reason)}
    if line["outcome"] != Outcome.REJECTED:
        told = ("rows_new", "rows_staged", "rows_duplicate", "rows_conflict", "rows_late")
        for name in {*told} & {*counts}:
            yield from (line | {name: other} for other in {0, line[name] + 1} - {line[name]})


@pytest.mark.parametrize("name", sorted({*SCENARIOS} - {"unregistered_device"}))
def test_every_outcome_that_is_another_one_is_told(name: str) -> None:
    for line, step in zip(*lines_with_late(name), strict=True):
        assert is_as_expected(step.expected, line)
        wrong = [other for other in tampered(line) if is_as_expected(step.expected, other)]
        assert wrong == []


def lines_with_late(name: str) -> tuple[list[Line], list[Step]]:
    """The lines of a scenario that a platform has decided, each with how many rows are late."""
    steps, platform = played(name)
    tables = platform.tables
    changes = [*tables["row_changes"], *tables["staged_rows"]]
    late = Counter((row["segment_id"], row["position"]) for row in changes if row["late"])
    by_place = sorted(tables["batch_ledger"], key=lambda line: line["position"])
    lines = [line | {"rows_late": late["segment-1", line["position"]]} for line in by_place]
    return lines, steps


@pytest.mark.parametrize(
    "name", ["cloned_device", "telemetry_of_a_clone", "telemetry_batch_id_never_changes"]
)
def test_a_conflict_that_is_not_listed_is_told(name: str) -> None:
    steps, platform = played(name)
    evidence = evidence_of(platform)
    unlisted = compared(name, steps, evidence._replace(conflicts=[]), device="d")

    assert compared(name, steps, evidence, device="d").is_clean
    assert [each.what for each in unlisted.listings if not each.as_expected] == ["key conflicts"]


@pytest.mark.parametrize("name", ["gaps", "telemetry_gaps", "late_rows"])
def test_a_gap_that_is_not_listed_is_told(name: str) -> None:
    device = Script("listed")
    steps = SCENARIOS[name].played_by(device)
    evidence = evidence_of(played(name)[1])
    judged = partial(compared, name, steps, device="d", missing=device.missing)
    fewer = evidence._replace(missing=[*evidence.missing][1:])

    assert judged(evidence).is_clean
    assert [each.what for each in judged(fewer).listings if not each.as_expected] == ["gaps"]
    assert not compared(name, steps, evidence, device="d").is_clean


def test_rows_that_are_not_marked_late_are_told() -> None:
    steps, platform = played("reordered_batches")
    evidence = evidence_of(platform)
    unmarked = [dict(row) | {"late": False} for row in evidence.changes]

    assert compared("x", steps, evidence, device="d").is_clean
    assert not compared("x", steps, evidence._replace(changes=unmarked), device="d").is_clean


def test_what_is_not_drained_yet_is_not_told_as_wrong(
    lines: list[Line], evidence: Evidence
) -> None:
    unlisted = evidence._replace(conflicts=[])
    of_another_end = lines[0] | {"outcome": "kept"}

    assert not found_in(lines[:1], unlisted).is_wrong
    assert found_in([of_another_end], unlisted).is_wrong
    assert found_in(lines, unlisted).is_wrong
    assert not found_in(lines, evidence).is_wrong


def test_what_nobody_may_hear_is_a_fault_when_it_is_heard() -> None:
    assert is_as_expected(unheard(), None)
    assert not is_as_expected(unheard(), {"outcome": "rejected", "code": "unknown_topic"})


def test_a_rejection_with_another_code_is_noticed() -> None:
    [step, _] = SCENARIOS["redelivered_rejection"].steps()
    line = {"topic": step.topic, "payload_sha256": payload_hash(step), "origin": "live"}
    place = {"received_at": 1, "segment_id": "s", "position": 0, "drain_id": 1}
    right = {"outcome": "rejected", "code": "unsupported_format_version"}

    def found(**other: str) -> Findings:
        return compared("x", [step], Evidence([line | place | right | other]), device="d")

    assert found().is_clean
    assert not found(code="invalid_json").is_clean


def test_what_is_staged_is_told_with_its_reason() -> None:
    _, step = SCENARIOS["schema_additive"].steps()
    line = {"topic": step.topic, "payload_sha256": payload_hash(step), "origin": "live"}
    place = {"received_at": 1, "segment_id": "s", "position": 0, "drain_id": 1}
    counts = {"rows_new": 0, "rows_staged": 2, "rows_duplicate": 0, "rows_conflict": 0}
    staged = {"outcome": "staged", "code": "schema_review"}

    found = compared("x", [step], Evidence([line | place | counts | staged]), device="d")

    assert found.is_clean
    assert ends(found) == [("staged for schema_review", "staged for schema_review (2 staged)", 1)]


def test_the_list_has_every_scenario_with_its_ends() -> None:
    told = CliRunner().invoke(app, ["simulate", "--list", "--json"]).stdout.splitlines()

    assert len(told) == len(SCENARIOS)
    assert '"ends":"1 accepted, 2 duplicate_batch_seq"' in "".join(told)
