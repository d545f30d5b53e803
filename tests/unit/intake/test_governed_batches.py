"""What is ruled on the schemas of a device decides whether its rows go on, and under which keys."""

import pytest

from ilyama_protocol.fingerprint import SchemaColumn, schema_hash
from ilyama_protocol.governance.bindings import Actions, Binding, ColumnAction, Verb
from ilyama_protocol.governance.policies import FirstSchema, Policy
from ilyama_protocol.governance.rules import DeviceRules, ProjectRules, TableRules
from ilyama_protocol.intake.engine import IntakeEngine
from ilyama_protocol.intake.lineage_rulings import StagingReason
from ilyama_protocol.intake.outcomes import Arrival, DecidedRows
from ilyama_protocol.intake.schema_rulings import SchemaRulings
from ilyama_protocol.intake.state import BoundSchema, DeviceState, LineageState
from ilyama_protocol.topics import parse_topic
from ilyama_protocol.validation import validate
from tests.unit.intake.traffic import (
    DEVICE_ID,
    NOW,
    TABLE,
    TOPIC,
    batch,
    change,
    columns,
    counts,
    decided,
    engine,
    last_line,
    message,
    sample,
    sampled,
    telemetry,
)

ONE, TWO = columns(v="TEXT"), columns(v="TEXT", w="REAL")
OTHER = columns(v="INTEGER")
STRICT = Policy(FirstSchema.REVIEW)
GROWING = Policy(allow_additive_continue=True)
IGNORE = ColumnAction(Verb.IGNORE)


def hash_of(schema: tuple[SchemaColumn, ...]) -> str:
    return schema_hash(TABLE, schema)


def ruled(
    *payloads: bytes,
    state: DeviceState | None = None,
    device: DeviceRules | None = None,
    **table: object,
) -> IntakeEngine:
    """An engine after it took payloads under the rules of a table."""
    rules = TableRules(**{"policy": Policy()} | table)  # type: ignore[arg-type]
    project = ProjectRules(rules.policy, {TABLE: rules})
    return decided(payloads, engine(state, rulings=SchemaRulings(device, project)))


def outcomes(met: IntakeEngine) -> list[str]:
    return [line.code or line.outcome.value for line in met.decisions.outcomes.ledger]


def asked(met: IntakeEngine) -> list[tuple[str, str]]:
    reviews = met.decisions.schemas.reviews.values()
    return [(review.schema_hash, review.schema_class.value) for review in reviews]


def test_the_first_schema_is_accepted_and_the_next_waits_with_all_that_follows() -> None:
    met = ruled(
        batch(change(1), schema=ONE),
        batch(change(2), schema=TWO),
        batch(change(3), schema=ONE),
        batch(change(4), schema=TWO),
        batch(change(5), table="valves"),
    )

    staged = ["schema_review", "lineage_paused", "schema_review"]
    assert outcomes(met) == ["accepted", *staged, "accepted"]
    assert asked(met) == [(hash_of(TWO), "compatible_additive")]
    assert [*met.decisions.state.lineages[TABLE].accepted_schemas()] == [hash_of(ONE)]


def test_a_review_carries_its_evidence() -> None:
    met = ruled(batch(change(1), schema=ONE), batch(change(2, row={"v": 1}), schema=OTHER))

    (review,) = met.decisions.schemas.reviews.values()
    assert (review.device_id, review.source_table) == (DEVICE_ID, TABLE)
    assert review.diff.affinity_changed == ("v",)
    assert (review.columns, review.seen) == (OTHER, ("v",))
    assert review.last_accepted == hash_of(ONE)
    assert review.received_at == NOW + 1_000_000


def test_where_first_schemas_are_reviewed_nothing_goes_on() -> None:
    met = ruled(batch(change(1), schema=ONE), batch(change(2), schema=ONE), policy=STRICT)

    assert outcomes(met) == ["schema_review", "schema_review"]
    assert asked(met) == [(hash_of(ONE), "ambiguous")]
    assert met.decisions.state.lineages[TABLE].accepted == {}


def test_a_staged_row_counts_for_dedup() -> None:
    met = ruled(
        batch(change(1), schema=ONE),
        batch(change(1), number=2, schema=ONE),
        policy=STRICT,
    )

    assert outcomes(met) == ["schema_review", "duplicate"]
    assert counts(last_line(met)) == {"received": 1, "duplicate": 1}


def test_additive_schemas_go_on_where_the_policy_lets_them() -> None:
    met = ruled(batch(change(1), schema=ONE), batch(change(2), schema=TWO), policy=GROWING)

    assert outcomes(met) == ["accepted", "accepted"]
    accepted = met.decisions.state.lineages[TABLE].accepted
    assert accepted == {hash_of(ONE): Binding(NOW), hash_of(TWO): Binding(NOW + 1_000_000)}


def test_an_approved_schema_is_bound_as_it_was_approved() -> None:
    actions: Actions = {"v": IGNORE, "w": ColumnAction(Verb.MAP, "site.flow")}
    row = {"v": "x", "w": 1.5}
    approved = {hash_of(TWO): actions}

    met = ruled(
        batch(change(1), schema=ONE),
        batch(change(2, row=row), schema=TWO, announce=False),
        policy=STRICT,
        approved=approved | {hash_of(ONE): None},
    )

    assert outcomes(met) == ["accepted", "accepted"]
    points = met.decisions.outcomes.accepted[-1].points
    assert [(p.key, p.kind.value) for p in points] == [("site.flow", "metric")]
    assert not met.decisions.schemas.accepted_by_policy


def test_what_a_policy_accepts_is_told() -> None:
    met = ruled(batch(change(1), schema=ONE))

    assert met.decisions.schemas.accepted_by_policy == [(TABLE, hash_of(ONE), Binding(NOW))]


def test_only_the_first_schema_of_a_lineage_passes_without_a_review() -> None:
    strict = ruled(batch(change(1), schema=ONE), policy=STRICT)
    state = strict.decisions.state.copy()

    met = ruled(batch(change(2), schema=OTHER), state=state)

    assert outcomes(met) == ["schema_review"]
    assert asked(met) == [(hash_of(OTHER), "ambiguous")]


def test_a_policy_accepts_what_older_bindings_say_of_the_columns() -> None:
    first = ruled(batch(change(1), schema=ONE), approved={hash_of(ONE): {"v": IGNORE}})
    state = first.decisions.state.copy()

    met = ruled(batch(change(2), schema=TWO), state=state, policy=GROWING)

    (accepted,) = met.decisions.schemas.accepted_by_policy
    assert accepted.binding.actions == {"v": IGNORE, "w": ColumnAction()}


def test_a_column_unlike_the_device_table_waits_even_when_first() -> None:
    met = ruled(batch(change(1), schema=ONE), device_table={"v": "REAL"})

    assert asked(met) == [(hash_of(ONE), "breaking")]


def test_columns_that_the_project_approved_are_bound_as_there() -> None:
    bound = {"v": IGNORE, "w": IGNORE}
    met = ruled(batch(change(1, row={"v": "x"}), schema=ONE), policy=STRICT, bound=bound)

    assert outcomes(met) == ["accepted"]
    assert met.decisions.outcomes.accepted[0].points == []


def test_an_inherited_binding_outlives_its_drain() -> None:
    relaxed = tuple(SchemaColumn(c.name, c.decl_type_affinity, 0, True) for c in ONE)
    first = ruled(batch(change(1), schema=ONE), approved={hash_of(ONE): {"v": IGNORE}})
    state = first.decisions.state.copy()

    met = ruled(batch(change(2, row={"v": "x"}), schema=relaxed), state=state)

    assert outcomes(met) == ["accepted"]
    assert met.decisions.outcomes.accepted[0].points == []


def test_a_paused_lineage_accepts_its_schema_and_stages_its_rows() -> None:
    met = ruled(batch(change(1), schema=ONE), device=DeviceRules(pauses={TABLE: ["operator"]}))

    assert outcomes(met) == ["lineage_paused"]
    assert [*met.decisions.state.lineages[TABLE].accepted_schemas()] == [hash_of(ONE)]


def test_schemas_from_before_there_were_rulings_stay_accepted() -> None:
    before = LineageState(schemas={hash_of(ONE): BoundSchema(5, ONE)})
    state = DeviceState(lineages={TABLE: before})

    met = ruled(
        batch(change(1), schema=ONE), batch(change(2), schema=OTHER), state=state, policy=STRICT
    )

    assert outcomes(met) == ["accepted", "schema_review"]
    assert asked(met) == [(hash_of(OTHER), "breaking")]
    assert met.decisions.state.lineages[TABLE].accepted == {hash_of(ONE): Binding(5)}


def test_a_pause_that_nobody_looks_after_ends_with_an_accepted_schema() -> None:
    first = ruled(batch(change(1), schema=ONE))
    lapsed = DeviceRules(lapsed=[TABLE])

    back = ruled(batch(change(2), schema=ONE), state=first.decisions.state.copy(), device=lapsed)
    again = ruled(batch(change(2), schema=TWO), state=first.decisions.state.copy(), device=lapsed)

    assert (outcomes(back), back.decisions.schemas.resumed) == (["accepted"], [TABLE])
    assert (outcomes(again), again.decisions.schemas.resumed) == (["schema_review"], [])


def test_released_rows_go_by_the_approval() -> None:
    payload = batch(change(1, row={"v": "x", "w": 1.5}), schema=TWO)
    staged = ruled(payload, policy=STRICT)
    state = staged.decisions.state.copy()
    actions: Actions = {"v": ColumnAction(Verb.MAP, "site.mode"), "w": IGNORE}
    rules = DeviceRules(approved={TABLE: {hash_of(TWO): actions}})
    releasing = engine(state, rulings=SchemaRulings(rules))

    releasing.release(_decided_rows(payload))

    (released,) = releasing.decisions.outcomes.accepted
    assert [point.key for point in released.points] == ["site.mode"]
    accepted = releasing.decisions.state.lineages[TABLE].accepted
    assert accepted == {hash_of(TWO): Binding.approved(NOW, actions)}


def test_a_schema_is_accepted_from_the_first_of_its_released_rows_whatever_their_order() -> None:
    payloads = [batch(change(seq), schema=TWO) for seq in (1, 2, 3)]
    rules = DeviceRules(approved={TABLE: {hash_of(TWO): None}})
    releasing = engine(rulings=SchemaRulings(rules))

    for payload, moment in zip(payloads, (NOW + 1_000, NOW, NOW + 2_000), strict=True):
        releasing.release(_decided_rows(payload, at=moment))

    accepted = releasing.decisions.state.lineages[TABLE].accepted
    assert accepted == {hash_of(TWO): Binding(NOW)}


def _decided_rows(payload: bytes, *, at: int = NOW) -> DecidedRows:
    address = parse_topic(TOPIC)
    read = validate(address.kind, payload, registered=True)
    arrival = Arrival(message(payload), address, DEVICE_ID, at, "", "1.0")
    return DecidedRows(arrival, read, [0], set())  # type: ignore[arg-type]


def test_what_is_set_aside_is_counted_by_schema() -> None:
    met = ruled(batch(change(1), schema=ONE), policy=STRICT)
    sampled(telemetry(sample(1), sample(2), schema=TWO), engine=met)
    place = (TABLE, StagingReason.SCHEMA_REVIEW)

    assert met.decisions.staged_rows == {(*place, hash_of(ONE)): 1, (*place, hash_of(TWO)): 2}


def test_a_schema_that_flips_at_every_batch_asks_once_and_its_state_does_not_grow() -> None:
    state = DeviceState()
    asked_for: set[str] = set()
    sizes: list[int] = []
    for number in range(1, 41):
        schema = TWO if number % 2 else OTHER
        met = ruled(batch(change(number), number=number, schema=schema), state=state, policy=STRICT)
        asked_for |= {schema_hash for schema_hash, _ in asked(met)}
        assert outcomes(met) == ["schema_review"]
        state = met.decisions.state.copy()
        sizes.append(len(state.lineages[TABLE].schemas))

    assert asked_for == {hash_of(TWO), hash_of(OTHER)}
    assert sizes[1:] == [2] * 39


NARROW, WIDE = columns(w="REAL"), columns(v="INTEGER", w="REAL")
CHANGED = columns(v="TEXT", w="REAL")
PROJECTS = [None, "waterworks"]


@pytest.mark.parametrize("project", PROJECTS, ids=["no project", "a project"])
def test_a_column_that_was_gone_for_a_while_comes_back_with_its_affinity_or_waits(
    project: str | None,
) -> None:
    device = DeviceRules(project, approved={TABLE: {hash_of(NARROW): None}})
    first = ruled(batch(change(1), schema=WIDE), batch(change(2), schema=NARROW), device=device)
    state = first.decisions.state

    back = ruled(batch(change(3), schema=CHANGED), state=state.copy(), device=device)
    same = tuple(SchemaColumn(c.name, c.decl_type_affinity, 0, True) for c in WIDE)
    strict = ruled(batch(change(3), schema=same[:1]), state=state.copy(), device=device)

    assert asked(back) == [(hash_of(CHANGED), "breaking")]
    (review,) = back.decisions.schemas.reviews.values()
    assert review.diff.affinity_changed == ("v",)
    (review,) = strict.decisions.schemas.reviews.values()
    assert review.diff.affinity_changed == ()


def test_an_affinity_that_a_person_approved_is_that_of_the_column() -> None:
    approved = {hash_of(CHANGED): None, hash_of(NARROW): None}
    payloads = [
        batch(change(n), schema=schema, number=n)
        for n, schema in enumerate((WIDE, CHANGED, NARROW), 1)
    ]
    first = ruled(*payloads, approved=approved)
    wider = columns(v="TEXT", w="REAL", x="TEXT")
    state = first.decisions.state

    met = ruled(batch(change(4), schema=wider), state=state.copy(), policy=GROWING)
    older = columns(v="INTEGER", w="REAL", x="TEXT")
    back = ruled(batch(change(4), schema=older), state=state.copy(), policy=GROWING)

    assert outcomes(met) == ["accepted"]
    assert asked(back) == [(hash_of(older), "breaking")]


def test_the_affinity_of_an_ignored_column_binds_nothing() -> None:
    approved: dict[str, Actions | None] = {hash_of(WIDE): {"v": IGNORE}, hash_of(NARROW): None}
    payloads = [batch(change(n), schema=s, number=n) for n, s in enumerate((WIDE, NARROW), 1)]
    first = ruled(*payloads, approved=approved)

    met = ruled(batch(change(3), schema=CHANGED), state=first.decisions.state.copy())

    assert outcomes(met) == ["accepted"]


def test_a_schema_that_a_person_rejected_no_policy_accepts() -> None:
    first = ruled(batch(change(1), schema=ONE), policy=STRICT)
    rejected = DeviceRules(
        pauses={TABLE: ["schema_review"]}, rejected={TABLE: [hash_of(ONE), hash_of(TWO)]}
    )
    state = first.decisions.state

    met = ruled(batch(change(2), schema=ONE), state=state.copy(), device=rejected)
    bound = ruled(
        batch(change(2), schema=TWO), state=state.copy(), device=rejected, bound={"v": IGNORE}
    )

    assert outcomes(met) == outcomes(bound) == ["schema_review"]
    assert not met.decisions.schemas.accepted_by_policy
    assert met.decisions.state.lineages[TABLE].accepted == {}


def test_a_schema_that_a_person_rejected_after_it_was_accepted_is_staged_again() -> None:
    state = ruled(batch(change(1), schema=TWO)).decisions.state
    rejected = DeviceRules("waterworks", rejected={TABLE: [hash_of(TWO)]})

    met = ruled(
        batch(change(2), schema=TWO, number=1),
        batch(change(3), schema=ONE, number=2),
        state=state.copy(),
        device=rejected,
    )
    approved = ruled(
        batch(change(2), schema=TWO, number=1),
        state=state.copy(),
        device=rejected,
        approved={hash_of(TWO): None},
    )

    assert outcomes(met) == ["schema_review", "schema_review"]
    assert outcomes(approved) == ["accepted"]


def test_a_rejected_schema_is_accepted_once_its_project_approves_it() -> None:
    device = DeviceRules("waterworks", rejected={TABLE: [hash_of(ONE)]})

    met = ruled(batch(change(1), schema=ONE), device=device, approved={hash_of(ONE): None})

    assert outcomes(met) == ["accepted"]
