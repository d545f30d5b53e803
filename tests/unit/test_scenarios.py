"""Every scenario comes to the ends that it names, by the engine and by the oracle."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from ilyama_protocol.governance.policies import FirstSchema, Policy
from ilyama_protocol.limits import Limits
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
from ilyama_service.simulator.scenarios.findings import compared, is_as_expected
from ilyama_service.simulator.scenarios.playing import ScenarioImpossible, insist_on_room
from ilyama_service.simulator.scenarios.refusals import SPOILED
from ilyama_service.simulator.scenarios.script import Script, Step
from tests.memory_platform import MemoryPlatform
from tests.oracle import Event, Oracle
from tests.unit.scenario_evidence import evidence_of, heard

NOON = 1_777_377_600_000_000


STEPS = {name: scenario.steps() for name, scenario in SCENARIOS.items()}


def is_refusal(scenario: Scenario) -> bool:
    """Whether every message is rejected, for which no history is needed."""
    return all(step.expected.code for step in STEPS[scenario.name])


each_scenario = pytest.mark.parametrize("scenario", [*SCENARIOS.values()], ids=[*SCENARIOS])
each_scenario_with_history = pytest.mark.parametrize(
    "name", [name for name, scenario in SCENARIOS.items() if not is_refusal(scenario)]
)


def assert_as_expected(step: Step, found: Mapping[str, Any]) -> None:
    told = f"{step.topic} {step.payload[:300]!r}: {dict(found)}"
    assert is_as_expected(step.expected, found), told


def arrival_of(row: Mapping[str, Any]) -> tuple[str, int]:
    """The message that a row of the oracle is of."""
    return row["device_id"], row["received_at"]


def assert_all_as_it_had_to_be(
    scenario: Scenario, platform: MemoryPlatform, policy: Policy
) -> None:
    device = Script("listed")
    steps = [step.under(lambda _: policy) for step in scenario.played_by(device)]
    found = compared(
        scenario.name, steps, evidence_of(platform), device=device.root, missing=device.missing
    )
    assert (found.surprises, found.is_complete) == ([], True)


@each_scenario
def test_the_engine_brings_a_scenario_to_its_ends(scenario: Scenario) -> None:
    rehearsal = Rehearsal()
    for step in heard(STEPS[scenario.name]):
        answer = rehearsal.publish(step.topic, step.payload, registered=step.registered)
        assert_as_expected(step, {name: getattr(answer, name) for name in answer.__struct_fields__})


@pytest.mark.parametrize("joins", [False, True], ids=["", "columns_join"])
@pytest.mark.parametrize("first", [*FirstSchema])
@each_scenario_with_history
def test_drains_of_one_message_bring_a_scenario_to_its_ends_under_every_policy(
    name: str, first: FirstSchema, joins: bool
) -> None:
    policy = Policy(first, allow_additive_continue=joins)
    platform = MemoryPlatform(policy=policy)
    for number, step in enumerate(heard(STEPS[name])):
        platform.drain([Event(step.topic, step.payload, NOON + number)])
    assert_all_as_it_had_to_be(SCENARIOS[name], platform, policy)


@each_scenario
def test_the_oracle_agrees(scenario: Scenario) -> None:
    steps = heard(STEPS[scenario.name])
    addresses = [parse_topic(step.topic) for step in steps if step.registered]
    registry = {(a.topic_slug, a.device_name): a.own_device_id for a in addresses}
    oracle = Oracle(auto_register=False, registry=registry)  # type: ignore[arg-type]
    for number, step in enumerate(steps):
        oracle.feed(Event(step.topic, step.payload, NOON + number))
    tables = oracle.tables()
    late = Counter(arrival_of(change) for change in tables["row_changes"] if change["late"])
    for step, line in zip(steps, tables["batch_ledger"], strict=True):
        assert_as_expected(step, line | {"rows_late": late[arrival_of(line)]})


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


OTHER_LIMITS = [
    Limits(payload_max_bytes=400_000, batch_max_rows=300),
    Limits(payload_max_bytes=1_000_000, batch_max_rows=7_000),
]
AT_A_LIMIT = [
    *("largest_payload", "most_rows", "telemetry_most_rows"),
    *("payload_too_large", "batch_too_many_rows", "redelivery"),
]


@pytest.mark.parametrize("limits", OTHER_LIMITS, ids=str)
@pytest.mark.parametrize("name", AT_A_LIMIT)
def test_a_scenario_goes_by_the_limits_in_force(name: str, limits: Limits) -> None:
    scenario = SCENARIOS[name]
    steps = scenario.played_by(Script("limited", limits=limits))
    insist_on_room(scenario, steps, limits)
    rehearsal = Rehearsal(limits=limits)
    for step in steps:
        answer = rehearsal.publish(step.topic, step.payload)
        assert_as_expected(step, {name: getattr(answer, name) for name in answer.__struct_fields__})


@pytest.mark.parametrize(
    ("name", "limits", "needed"),
    [
        ("redelivery", Limits(payload_max_bytes=300), "ILYAMA_PAYLOAD_MAX_BYTES"),
        ("redelivery", Limits(batch_max_rows=1), "ILYAMA_BATCH_MAX_ROWS"),
        ("most_rows", Limits(batch_max_rows=100_000), "ILYAMA_PAYLOAD_MAX_BYTES"),
        ("batch_too_many_rows", Limits(payload_max_bytes=40_000), "ILYAMA_PAYLOAD_MAX_BYTES"),
    ],
)
def test_a_scenario_that_the_limits_leave_no_room_says_so(
    name: str, limits: Limits, needed: str
) -> None:
    scenario = SCENARIOS[name]
    with pytest.raises(ScenarioImpossible, match=rf"^{name} cannot be shown here: .* {needed}\.$"):
        insist_on_room(scenario, scenario.played_by(Script("limited", limits=limits)), limits)


@pytest.mark.parametrize("failures", [1, 3, 9])
def test_as_many_rows_as_it_takes_open_a_circuit(failures: int) -> None:
    scenario = SCENARIOS["deaf_to_a_pause"]
    device = Script("listed", failures=failures)
    platform = MemoryPlatform(failures=failures)
    for number, step in enumerate(scenario.played_by(device)):
        platform.drain([Event(step.topic, step.payload, NOON + number)])
    found = compared(scenario.name, device.steps, evidence_of(platform), device=device.root)
    assert (found.surprises, found.is_complete) == ([], True)


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
