"""Every scenario comes to the ends that it names, by the engine and by the oracle."""

from collections.abc import Mapping
from typing import Any

import pytest

from ilyama_protocol.rehearsal import Rehearsal
from ilyama_protocol.rejections import RejectionCode
from ilyama_protocol.topics import parse_topic
from ilyama_service.simulator.faults import CODES
from ilyama_service.simulator.scenarios.catalog import (
    SCENARIOS,
    Scenario,
    UnknownScenario,
    find_scenario,
)
from ilyama_service.simulator.scenarios.findings import is_as_expected
from ilyama_service.simulator.scenarios.refusals import SPOILED
from ilyama_service.simulator.scenarios.script import Step
from tests.memory_platform import MemoryPlatform
from tests.oracle import Event, Oracle

NOON = 1_777_377_600_000_000


STEPS = {name: scenario.steps() for name, scenario in SCENARIOS.items()}


def is_refusal(scenario: Scenario) -> bool:
    """Whether every message is rejected, for which no history is needed."""
    return all(step.expected.code for step in STEPS[scenario.name])


each_scenario = pytest.mark.parametrize("scenario", [*SCENARIOS.values()], ids=[*SCENARIOS])


def assert_as_expected(step: Step, found: Mapping[str, Any]) -> None:
    told = f"{step.topic} {step.payload[:300]!r}: {dict(found)}"
    assert is_as_expected(step.expected, found), told


@each_scenario
def test_the_engine_brings_a_scenario_to_its_ends(scenario: Scenario) -> None:
    rehearsal = Rehearsal()
    for step in STEPS[scenario.name]:
        answer = rehearsal.publish(step.topic, step.payload, registered=step.registered)
        assert_as_expected(step, {name: getattr(answer, name) for name in answer.__struct_fields__})
        assert answer.rows_late == step.expected.late


@pytest.mark.parametrize(
    "name", [name for name, scenario in SCENARIOS.items() if not is_refusal(scenario)]
)
def test_drains_of_one_message_bring_a_scenario_to_its_ends(name: str) -> None:
    platform = MemoryPlatform()
    for number, step in enumerate(STEPS[name]):
        platform.drain([Event(step.topic, step.payload, NOON + number)])
        assert_as_expected(step, platform.tables["batch_ledger"][-1])


@each_scenario
def test_the_oracle_agrees(scenario: Scenario) -> None:
    steps = STEPS[scenario.name]
    addresses = [parse_topic(step.topic) for step in steps if step.registered]
    registry = {(a.topic_slug, a.device_name): a.own_device_id for a in addresses}
    oracle = Oracle(auto_register=False, registry=registry)  # type: ignore[arg-type]
    for number, step in enumerate(steps):
        oracle.feed(Event(step.topic, step.payload, NOON + number))
    tables = oracle.tables()
    for step, line in zip(steps, tables["batch_ledger"], strict=True):
        assert_as_expected(step, line)
    late = sum(change["late"] for change in tables["row_changes"])
    assert late == sum(step.expected.late for step in steps)


def test_all_scenarios_together_get_every_code_that_a_new_device_can_get() -> None:
    codes = {step.expected.code for steps in STEPS.values() for step in steps}
    # That needs rows that retention has dropped.
    assert codes - {None} == {*RejectionCode} - {RejectionCode.BELOW_FLOOR}


def test_what_a_fleet_spoils_is_what_scenarios_spoil() -> None:
    names = {*SPOILED, RejectionCode.INVALID_JSON}
    assert {*CODES} <= names


@pytest.mark.parametrize("scenario", SPOILED)
def test_a_code_is_got_in_several_ways(scenario: RejectionCode) -> None:
    steps = STEPS[scenario.value]
    assert len({step.payload for step in steps}) == len(steps) > 1


def test_every_scenario_is_explained_in_one_line() -> None:
    lines = [scenario.line for scenario in SCENARIOS.values()]
    assert [line for line in lines if not line.endswith(".") or "\n" in line] == []
    assert find_scenario("cloned_device").ends() == "1 accepted, 2 duplicate in conflict"


def test_the_same_seed_plays_the_same_bytes_on_the_same_device() -> None:
    scenario = SCENARIOS["clock_jumps"]
    assert scenario.steps("a") == scenario.steps("a")
    assert {s.topic for s in scenario.steps("a")}.isdisjoint(s.topic for s in scenario.steps("b"))


def test_an_unknown_scenario_is_one_sentence() -> None:
    with pytest.raises(UnknownScenario, match="`ilyama simulate --list` has all"):
        find_scenario("none")
