"""A schema that waits for a person is not classified with each of its batches."""

import random
from typing import Any

import pytest

from ilyama_protocol.fingerprint import SchemaColumn
from ilyama_protocol.governance.policies import FirstSchema, Policy
from ilyama_protocol.governance.rules import ProjectRules, TableRules
from ilyama_protocol.governance.ruling import rule_on
from ilyama_protocol.intake.engine import IntakeEngine
from ilyama_protocol.intake.schema_rulings import SchemaRulings
from ilyama_protocol.intake.undecided_schemas import UndecidedSchemas
from tests.unit.intake.traffic import (
    NOW,
    TABLE,
    TELEMETRY_TOPIC,
    batch,
    change,
    columns,
    engine,
    message,
    sample,
    telemetry,
)

ONE = columns(v="TEXT")
SCHEMAS = (
    ONE,
    columns(v="INTEGER"),
    columns(v="TEXT", w="REAL"),
    columns(w="REAL"),
    columns(w="TEXT", x="TEXT"),
    columns(v="TEXT", w="REAL", x="TEXT"),
)
POLICIES = (Policy(), Policy(FirstSchema.REVIEW), Policy(allow_additive_continue=True))


def ruling(policy: Policy) -> SchemaRulings:
    return SchemaRulings(None, ProjectRules(policy, {TABLE: TableRules(policy)}))


def some_batch(chance: random.Random, number: int) -> tuple[bytes, dict[str, Any]]:
    schema, told = chance.choice(SCHEMAS), chance.random() < 0.5
    if chance.random() < 0.3:
        payload = telemetry(sample(number), seq=number, number=number, schema=schema)
        return payload, {"topic": TELEMETRY_TOPIC}
    row = {column.name: None for column in schema}
    payload = batch(change(number, row=row), number=number, schema=schema, announce=told)
    return payload, {}


def decided(taking: IntakeEngine, seed: int) -> IntakeEngine:
    chance = random.Random(seed)
    for number in range(40):
        payload, named = some_batch(chance, number)
        at = NOW + number * 1_000_000
        taking.decide(message(payload, at=at, position=number, **named))
    return taking


def told(taking: IntakeEngine) -> list[Any]:
    decisions = taking.decisions
    schemas = decisions.schemas
    outcomes = [(line.code, line.outcome) for line in decisions.outcomes.ledger]
    return [outcomes, schemas.reviews, schemas.accepted_by_policy, taking.state_after(1)]


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize("seed", range(15))
def test_what_is_remembered_is_what_would_be_ruled_anew(
    monkeypatch: pytest.MonkeyPatch, seed: int, policy: Policy
) -> None:
    remembering = told(decided(engine(rulings=ruling(policy)), seed))
    monkeypatch.setattr(UndecidedSchemas, "remember", lambda *_: None)
    assert remembering == told(decided(engine(rulings=ruling(policy)), seed))


def test_a_schema_that_waits_is_classified_again_only_when_more_columns_are_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    classified: list[tuple[SchemaColumn, ...] | None] = []

    def noting(schema: Any, *given: Any, **named: Any) -> Any:
        classified.append(schema.columns)
        return rule_on(schema, *given, **named)

    monkeypatch.setattr("ilyama_protocol.intake.schema_rulings.rule_on", noting)
    taking = engine(rulings=ruling(Policy()))
    for number in range(30):
        schema = (ONE, SCHEMAS[1], SCHEMAS[4])[number % 3]
        payload = batch(change(number), number=number, schema=schema, announce=number < 20)
        taking.decide(message(payload, at=NOW + number * 1_000_000, position=number))

    assert classified == [ONE, SCHEMAS[1], SCHEMAS[4], SCHEMAS[1], SCHEMAS[4]]
    assert len(taking.decisions.schemas.reviews) == 2
