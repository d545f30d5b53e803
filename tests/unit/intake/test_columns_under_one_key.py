"""No policy puts two columns of one row under one datapoint key: a person is asked."""

from collections.abc import Sequence

import pytest

from ilyama_protocol.fingerprint import SchemaColumn, schema_hash
from ilyama_protocol.governance.bindings import (
    DEFERRED,
    MIRRORED,
    Actions,
    Approval,
    ColumnAction,
    Verb,
    mirrored,
)
from ilyama_protocol.governance.policies import FirstSchema, Policy
from ilyama_protocol.governance.rules import DeviceRules, ProjectRules, TableRules
from ilyama_protocol.intake.engine import IntakeEngine
from ilyama_protocol.intake.schema_rulings import SchemaRulings
from ilyama_protocol.intake.state import DeviceState
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
    staged,
    telemetry,
)

OLD, NEW = columns(setpoint="REAL"), columns(target="REAL")
BOTH = columns(setpoint="REAL", target="REAL")
SETPOINT = f"{TABLE}.setpoint"
TO_SETPOINT = ColumnAction(Verb.MAP, SETPOINT)
RENAMED: dict[str, Actions | None] = {schema_hash(TABLE, NEW): {"target": TO_SETPOINT}}
BOTH_HASH = schema_hash(TABLE, BOTH)
GROWING = Policy(allow_additive_continue=True)
ROW = {"setpoint": 30.0, "target": 31.0}
SENSIBLE: dict[str, Actions] = {
    "all under their own keys": mirrored(ROW),
    "the old one ignored": {"setpoint": ColumnAction(Verb.IGNORE), "target": TO_SETPOINT},
    "the new one ignored": {"setpoint": MIRRORED, "target": ColumnAction(Verb.IGNORE)},
    "the new one left for later": {"setpoint": MIRRORED, "target": DEFERRED},
}


def rows(number: int, schema: tuple[SchemaColumn, ...]) -> bytes:
    row = {column.name: ROW[column.name] for column in schema}
    return batch(change(number, row=row), number=number, schema=schema)


def samples(number: int, schema: tuple[SchemaColumn, ...]) -> bytes:
    fields = {column.name: ROW[column.name] for column in schema}
    return telemetry(sample(number, **fields), seq=number, schema=schema)


def took(
    payloads: Sequence[bytes],
    approved: dict[str, Actions | None],
    policy: Policy = GROWING,
    *,
    state: DeviceState | None = None,
) -> IntakeEngine:
    """An engine that took batches of a device without a project, to which this is approved."""
    rulings = SchemaRulings(DeviceRules(approved={TABLE: approved}), ProjectRules(policy))
    taking = engine(None if state is None else state.copy(), rulings=rulings)
    for second, payload in enumerate(payloads):
        at = NOW + second * 1_000_000
        topic = {"topic": TELEMETRY_TOPIC} if b"batch_seq" in payload else {}
        taking.decide(message(payload, at=at, position=second, **topic))
    return taking


def asked(met: IntakeEngine) -> list[tuple[str, tuple[str, ...]]]:
    reviews = met.decisions.schemas.reviews.values()
    return [(review.schema_class.value, review.diff.under_one_key) for review in reviews]


def keys(met: IntakeEngine) -> list[list[str]]:
    """The keys of every batch that is shown."""
    accepted = [batch.points for batch in met.decisions.outcomes.accepted]
    shown = accepted + [batch.points for batch in met.decisions.outcomes.samples]
    return [[column.key for column in points] for points in shown]


@pytest.mark.parametrize("policy", [Policy(), GROWING], ids=["by default", "additive"])
@pytest.mark.parametrize("sent", [rows, samples], ids=["rows", "telemetry"])
@pytest.mark.parametrize("first", [(OLD, NEW), (NEW, OLD)], ids=["old first", "new first"])
def test_a_schema_whose_columns_were_bound_to_one_key_is_reviewed(
    first: tuple[tuple[SchemaColumn, ...], ...], sent: object, policy: Policy
) -> None:
    made = [sent(n, schema) for n, schema in enumerate((*first, BOTH))]  # type: ignore[operator]
    met = took(made, RENAMED | {schema_hash(TABLE, OLD): None}, policy)

    assert keys(met) == [[SETPOINT], [SETPOINT]]
    assert asked(met) == [("ambiguous", ("setpoint", "target"))]
    (review,) = met.decisions.schemas.reviews.values()
    assert review.diff.unbound == ("setpoint", "target")


@pytest.mark.parametrize("actions", SENSIBLE.values(), ids=SENSIBLE.keys())
def test_a_person_says_which_of_them_has_the_key(actions: Actions) -> None:
    kinds = {SETPOINT: "metric"}
    assert Approval(TABLE, (*ROW,), actions, GROWING, kinds, BOTH).faults() == []
    met = took([rows(0, NEW), rows(1, BOTH)], RENAMED | {BOTH_HASH: actions})

    assert asked(met) == []
    assert len({*keys(met)[1]}) == len(keys(met)[1]) > 0


def test_it_is_reviewed_though_first_where_its_project_has_bound_the_columns() -> None:
    table = TableRules(Policy(), approved=RENAMED, bound={"target": TO_SETPOINT})
    project = ProjectRules(Policy(FirstSchema.ACCEPT), {TABLE: table})
    met = engine(rulings=SchemaRulings(DeviceRules("waterworks"), project))
    met.decide(message(rows(1, BOTH)))

    assert keys(met) == []
    assert asked(met) == [("ambiguous", ("setpoint", "target"))]


LEFT: Actions = {"setpoint": MIRRORED, "target": DEFERRED}


def test_a_column_left_for_later_is_not_taken_over_under_the_key_of_another() -> None:
    before = took([rows(1, BOTH)], {BOTH_HASH: LEFT})
    elsewhere: Actions = {"setpoint": ColumnAction(Verb.IGNORE), "target": TO_SETPOINT}
    after = took([rows(2, BOTH)], {BOTH_HASH: elsewhere}, state=before.decisions.state)

    assert keys(after) == [[SETPOINT]]
    binding = after.decisions.state.lineages[TABLE].accepted_schemas()[BOTH_HASH]
    assert binding.deferred == ["target"]


def test_it_is_under_a_key_that_is_free() -> None:
    before = took([rows(1, BOTH)], {BOTH_HASH: LEFT})
    decided: Actions = LEFT | {"target": ColumnAction(Verb.MAP, "site.target")}
    after = took([rows(2, BOTH)], {BOTH_HASH: decided}, state=before.decisions.state)

    assert keys(after) == [[SETPOINT, "site.target"]]


STRICT_NEW = (SchemaColumn("target", NEW[0].decl_type_affinity, 0, not_null=True),)


def test_of_rows_from_before_the_columns_were_announced_the_named_column_has_the_key() -> None:
    """Nothing but the rows told then of the other one, whose usual key it is."""
    early = batch(change(1, row=ROW), number=1, schema=STRICT_NEW, announce=False)
    announced = batch(change(2, row={"target": 1.0}), number=2, schema=STRICT_NEW)
    met = took([rows(0, NEW), early, announced], RENAMED)
    assert asked(met) == [("ambiguous", ())]

    releasing = took([], RENAMED, state=met.decisions.state)
    releasing.release(staged(early, 1))

    (shown,) = releasing.decisions.outcomes.accepted
    assert [(points.key, points.values) for points in shown.points] == [(SETPOINT, [31.0])]
