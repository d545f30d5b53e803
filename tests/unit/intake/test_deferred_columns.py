"""A column that an approval has left for later is decided later, for what comes after that."""

import json

import pytest

from ilyama_protocol.fingerprint import SchemaColumn, schema_hash
from ilyama_protocol.governance.bindings import DEFERRED, Actions, Binding, ColumnAction, Verb
from ilyama_protocol.governance.policies import Policy
from ilyama_protocol.governance.rules import DeviceRules, ProjectRules, TableRules
from ilyama_protocol.intake.engine import IntakeEngine
from ilyama_protocol.intake.history import History, KnownBatch
from ilyama_protocol.intake.outcomes import Arrival, DecidedRows, Origin
from ilyama_protocol.intake.schema_rulings import SchemaRulings
from ilyama_protocol.intake.state import DeviceState
from ilyama_protocol.topics import parse_topic
from ilyama_protocol.validation import validate
from tests.unit.intake.traffic import (
    DEVICE_ID,
    NOW,
    TABLE,
    TELEMETRY_TOPIC,
    TOPIC,
    batch,
    change,
    columns,
    engine,
    message,
    sample,
    telemetry,
)

SCHEMA = columns(v="TEXT", w="REAL")
WIDER = columns(v="TEXT", w="REAL", x="TEXT")
HASH, WIDER_HASH = schema_hash(TABLE, SCHEMA), schema_hash(TABLE, WIDER)
LEFT: Actions = {"v": ColumnAction(), "w": DEFERRED}
TO_KEY = ColumnAction(Verb.MAP, "site.flow")
IGNORE = ColumnAction(Verb.IGNORE)
GROWING = Policy(allow_additive_continue=True)
SECOND = 1_000_000


def approving(actions: Actions | None, *, paused: bool = False) -> SchemaRulings:
    """What holds when the schema is approved with these actions for the device alone."""
    pauses = {TABLE: ["operator"]} if paused else {}
    device = DeviceRules(pauses=pauses, approved={TABLE: {HASH: actions}})
    return SchemaRulings(device, ProjectRules(GROWING))


def took(
    number: int,
    rulings: SchemaRulings,
    state: DeviceState | None = None,
    *,
    schema: tuple[SchemaColumn, ...] = SCHEMA,
    origin: Origin = Origin.LIVE,
) -> IntakeEngine:
    """An engine that took one batch, so many seconds after the first."""
    told = History() if origin is Origin.REJECTION else None
    before = None if state is None else state.copy()
    taking = engine(before, history=told, rulings=rulings, origin=origin)
    payload = batch(change(number, row={"v": "x", "w": 1.5}), schema=schema, number=number)
    taking.decide(message(payload, at=NOW + number * SECOND))
    return taking


def keys(met: IntakeEngine) -> list[str]:
    return sorted(p.key for rows in met.decisions.outcomes.accepted for p in rows.points)


def binding(met: IntakeEngine, schema: str = HASH) -> Binding:
    return met.decisions.state.lineages[TABLE].accepted_schemas()[schema]


def test_a_column_that_is_left_for_later_gives_no_datapoint() -> None:
    assert keys(took(1, approving(LEFT))) == [f"{TABLE}.v"]


def test_it_gives_datapoints_from_the_first_batch_after_the_decision() -> None:
    before = took(1, approving(LEFT))

    after = took(2, approving(LEFT | {"w": TO_KEY}), before.decisions.state)

    assert keys(after) == [f"{TABLE}.v", "site.flow"]
    since = NOW + 2 * SECOND
    decided = LEFT | {"w": TO_KEY}
    assert binding(after) == Binding(NOW + SECOND, decided, {"w": since}, only_named=True)
    assert binding(after).at(since - 1).actions == LEFT
    assert binding(after).at(since) == binding(after)


def test_a_decision_counts_once() -> None:
    first = took(2, approving(None), took(1, approving(LEFT)).decisions.state)

    second = took(3, approving(None), first.decisions.state)

    assert keys(second) == [f"{TABLE}.v", f"{TABLE}.w"]
    assert binding(second) == binding(first)


def test_a_column_may_be_ignored_after_all() -> None:
    met = took(2, approving(LEFT | {"w": IGNORE}), took(1, approving(LEFT)).decisions.state)

    assert keys(met) == [f"{TABLE}.v"]
    assert binding(met).deferred == []


def test_what_is_staged_when_the_decision_holds_is_released_by_it() -> None:
    before = took(1, approving(LEFT))
    decided = approving(LEFT | {"w": TO_KEY}, paused=True)
    staged = took(3, decided, before.decisions.state)

    assert keys(released(2, staged.decisions.state)) == [f"{TABLE}.v"]
    assert keys(released(3, staged.decisions.state)) == [f"{TABLE}.v", "site.flow"]


def released(number: int, state: DeviceState) -> IntakeEngine:
    """An engine that released a batch which had come so many seconds after the first."""
    payload = batch(change(number, row={"v": "x", "w": 1.5}), schema=SCHEMA, number=number)
    address, at = parse_topic(TOPIC), NOW + number * SECOND
    read = validate(address.kind, payload, registered=True)
    arrival = Arrival(message(payload, at=at), address, DEVICE_ID, at, "", "1.0")
    releasing = engine(state.copy(), rulings=approving(LEFT | {"w": TO_KEY}), origin=Origin.STAGED)
    releasing.release(DecidedRows(arrival, read, [0], set()))  # type: ignore[arg-type]
    return releasing


def test_a_schema_that_took_the_deferral_over_takes_the_decision_over() -> None:
    first = took(1, approving(LEFT))
    wider = took(2, approving(LEFT), first.decisions.state, schema=WIDER)
    assert keys(wider) == [f"{TABLE}.v"]
    assert binding(wider, WIDER_HASH).deferred == ["w"]

    after = took(3, approving(LEFT | {"w": TO_KEY}), wider.decisions.state, schema=WIDER)

    assert keys(after) == [f"{TABLE}.v", "site.flow"]


def test_a_decided_column_counts_as_bound_for_the_next_schema() -> None:
    narrow = (*columns(v="TEXT"), SchemaColumn("w", SCHEMA[1].decl_type_affinity, 0, True))
    first = took(1, approving(LEFT))
    strict = DeviceRules(approved={TABLE: {HASH: None}})

    left = took(2, approving(LEFT), first.decisions.state, schema=narrow)
    decided = took(2, SchemaRulings(strict), first.decisions.state, schema=narrow)

    assert [line.code for line in left.decisions.outcomes.ledger] == ["schema_review"]
    assert [line.code for line in decided.decisions.outcomes.ledger] == [None]


@pytest.mark.parametrize("asked_before", [False, True])
def test_columns_of_an_approved_schema_count_as_soon_as_they_are_told(asked_before: bool) -> None:
    """They come with telemetry that is sent again: its schema is not accepted by that."""
    rulings = SchemaRulings(DeviceRules(approved={TABLE: {WIDER_HASH: None}}))
    again = telemetry(sample(), seq=1, schema=WIDER)
    first = KnownBatch(str(json.loads(again)["batch_id"]), TABLE, 1, "", 1, 1, "segment", 0, NOW)
    narrow = (*columns(v="TEXT"), SchemaColumn("w", SCHEMA[1].decl_type_affinity, 0, True))
    state = took(1, approving(LEFT)).decisions.state
    taking = engine(state.copy(), history=History(batches=[first]), rulings=rulings)
    if asked_before:
        taking.decide(message(batch(change(2), schema=narrow, number=2), at=NOW + 2 * SECOND))

    taking.decide(message(again, at=NOW + 3 * SECOND, topic=TELEMETRY_TOPIC))
    taking.decide(message(batch(change(4), schema=narrow, number=4), at=NOW + 4 * SECOND))

    accepted = taking.decisions.state.lineages[TABLE].accepted_schemas()
    assert [*accepted] == [HASH, schema_hash(TABLE, narrow)]


def test_in_a_project_the_decision_comes_by_its_approval() -> None:
    rules = TableRules(Policy(), approved={HASH: LEFT | {"w": TO_KEY}})
    project = SchemaRulings(None, ProjectRules(tables={TABLE: rules}))

    assert keys(took(2, project, took(1, approving(LEFT)).decisions.state)) == [
        f"{TABLE}.v",
        "site.flow",
    ]


def test_a_rejection_that_is_replayed_goes_by_what_was_bound_when_it_came() -> None:
    first = took(3, approving(LEFT))
    decided = approving(LEFT | {"w": TO_KEY})
    replayed = took(2, decided, first.decisions.state, origin=Origin.REJECTION)
    assert keys(replayed) == [f"{TABLE}.v"]
    assert binding(replayed).decided is None

    live = took(5, decided, replayed.decisions.state)

    assert binding(live).decided == {"w": NOW + 5 * SECOND}
