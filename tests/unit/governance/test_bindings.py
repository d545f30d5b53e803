"""An approval names an action for every column, and a binding obeys it."""

import msgspec
import pytest

from ilyama_protocol.governance.bindings import (
    MIRRORED,
    Actions,
    Approval,
    Binding,
    ColumnAction,
    Verb,
    created_keys,
    decided_columns,
    joined,
    keeps_paused,
    mirrored,
    shared_affinities,
    stored_actions,
)
from ilyama_protocol.governance.policies import Policy
from tests.unit.governance.schemas import columns

TABLE = "pumps"
TYPED = columns("id:INTEGER:pk1", "serial:TEXT:nn", "mode:TEXT", "flow:REAL")
NAMES = tuple(column.name for column in TYPED)
KINDS = {"site.flow": "metric", "site.mode": "state"}
IGNORE, DEFER = ColumnAction(Verb.IGNORE), ColumnAction(Verb.DEFER)
CREATE = ColumnAction(Verb.AUTO_CREATE_AND_MAP)
CREATING = Policy(allow_auto_create_datapoints=True)


def to(key: str | None, verb: Verb = Verb.MAP) -> ColumnAction:
    return ColumnAction(verb, key)


def faults(actions: Actions, *, policy: Policy = CREATING, typed: bool = True) -> list[str]:
    """The columns at fault when these actions are approved, the rest being mirrored."""
    whole = mirrored(NAMES) | actions
    approval = Approval(TABLE, NAMES, whole, policy, KINDS, TYPED if typed else ())
    return [fault.column for fault in approval.faults()]


ACCEPTABLE = {
    "everything mirrored": {},
    "mapped to a key of the same kind": {"flow": to("site.flow"), "mode": to("site.mode")},
    "created under its usual key": {"flow": CREATE},
    "created under another key": {"flow": to("site.rate", Verb.AUTO_CREATE_AND_MAP)},
    "ignored and deferred": {"flow": IGNORE, "mode": DEFER},
    "a key deferred": {"id": DEFER},
}
UNACCEPTABLE = {
    "map without a key": {"flow": to(None)},
    "map to a key that is not there": {"flow": to("site.speed")},
    "map to a key of another kind": {"flow": to("site.mode")},
    "created under a key of another kind": {"flow": to("site.mode", Verb.AUTO_CREATE_AND_MAP)},
    "mirror with a key": {"flow": to("site.flow", Verb.MIRROR)},
    "ignore with a key": {"flow": to("site.flow", Verb.IGNORE)},
    "the usual key of another column": {
        "flow": to("pumps.id", Verb.AUTO_CREATE_AND_MAP),
        "id": MIRRORED,
    },
    "the platform's own key": {"flow": to("pumps.__deleted", Verb.AUTO_CREATE_AND_MAP)},
}


@pytest.mark.parametrize("actions", ACCEPTABLE.values(), ids=ACCEPTABLE.keys())
def test_these_actions_can_be_approved(actions: Actions) -> None:
    assert faults(actions) == []


@pytest.mark.parametrize("actions", UNACCEPTABLE.values(), ids=UNACCEPTABLE.keys())
def test_these_actions_name_their_fault(actions: Actions) -> None:
    assert len(faults(actions)) == 1


def test_two_columns_under_one_key_are_refused() -> None:
    assert faults({"mode": to("site.mode"), "serial": to("site.mode")}) == ["serial"]


@pytest.mark.parametrize("verb", [Verb.MAP, Verb.AUTO_CREATE_AND_MAP])
@pytest.mark.parametrize("key", ["", "a\nb", "a\0b", "k" * 5_000, "other.__deleted"])
def test_a_key_that_nobody_can_choose_is_refused_even_if_it_exists(key: str, verb: Verb) -> None:
    chosen = {"flow": ColumnAction(verb, key)}
    approval = Approval(TABLE, ("flow",), chosen, CREATING, {key: "metric"})

    (fault,) = approval.faults()
    assert (fault.column, fault.sentence[:15]) == ("flow", "a datapoint key")


def test_every_column_needs_an_action_and_no_other() -> None:
    approval = Approval(TABLE, ("a", "b"), {"a": MIRRORED, "z": IGNORE}, CREATING, {})

    assert [fault.column for fault in approval.faults()] == ["b", "z"]


def test_keys_are_created_only_where_the_policy_allows() -> None:
    assert faults({"flow": CREATE}, policy=Policy()) == ["flow"]
    assert created_keys(TABLE, {"flow": CREATE, "mode": MIRRORED}) == {"flow": "pumps.flow"}


def test_the_kind_of_a_column_that_was_never_announced_is_not_judged() -> None:
    assert faults({"flow": to("site.mode")}, typed=False) == []


@pytest.mark.parametrize(
    ("column", "expected"), [("id", True), ("serial", True), ("mode", False), ("flow", False)]
)
def test_a_deferred_column_that_rows_need_keeps_the_lineage_paused(
    column: str, expected: bool
) -> None:
    assert keeps_paused(mirrored(NAMES) | {column: DEFER}, TYPED) is expected
    assert not keeps_paused(mirrored(NAMES) | {column: IGNORE}, TYPED)


@pytest.mark.parametrize(
    ("action", "key"),
    [
        (MIRRORED, "pumps.flow"),
        (to("site.flow"), "site.flow"),
        (CREATE, "pumps.flow"),
        (to("site.rate", Verb.AUTO_CREATE_AND_MAP), "site.rate"),
        (IGNORE, None),
        (DEFER, None),
    ],
)
def test_an_action_gives_a_column_its_key(action: ColumnAction, key: str | None) -> None:
    assert Binding(0, {"flow": action}).keys(TABLE, ["flow"]).get("flow") == key


FLOW = {"flow": "pumps.flow"}


def test_what_no_action_names_is_mirrored() -> None:
    assert Binding(0).keys(TABLE, ["flow"]) == FLOW
    assert Binding(0, {"mode": IGNORE}).keys(TABLE, ["flow"]) == FLOW


def test_what_no_action_of_an_approval_names_is_left_for_later() -> None:
    approved = Binding.approved(0, {"mode": IGNORE, "id": MIRRORED})

    assert approved.keys(TABLE, ("id", "mode", "flow")) == {"id": "pumps.id"}
    assert Binding.approved(0, {}).keys(TABLE, ["flow"]) == {}
    assert Binding.approved(0, None).keys(TABLE, ["flow"]) == FLOW
    assert decided_columns(("id", "flow"), approved) == {"id"}
    assert shared_affinities(TYPED, approved.actions) == {"id": "INTEGER"}
    before = approved.deciding({"flow": MIRRORED}, since=9).at(8)
    assert before.keys(TABLE, ["flow", "serial"]) == {}


@pytest.mark.parametrize(
    ("actions", "keys"),
    [
        ({"rate": to("pumps.flow"), "flow": MIRRORED}, {"flow": "pumps.flow"}),
        ({"flow": to("pumps.rate"), "rate": MIRRORED}, {"flow": "pumps.rate"}),
        ({"rate": to("pumps.flow")}, {"rate": "pumps.flow"}),
        ({"rate": to("pumps.flow"), "flow": IGNORE}, {"rate": "pumps.flow"}),
        ({"rate": to("pumps.flow"), "flow": to("pumps.rate")},
         {"rate": "pumps.flow", "flow": "pumps.rate"}),
    ],
    ids=["the first by name", "the first, mapped", "the named one", "one is silent", "none"],
)  # fmt: skip
def test_no_binding_gives_two_columns_of_a_row_one_key(
    actions: Actions, keys: dict[str, str]
) -> None:
    assert Binding(0, actions).keys(TABLE, ["rate", "flow"]) == keys


def test_of_an_unannounced_schema_a_column_that_nobody_saw_can_be_decided_later() -> None:
    approval = Approval(TABLE, ("a",), {"a": IGNORE}, CREATING, KINDS)

    assert approval.faults_of_later({"b": MIRRORED}) == []
    assert [f.column for f in approval.faults_of_later({"a": MIRRORED})] == ["a"]
    assert [f.column for f in approval.faults_of_later({"b": to("site.speed")})] == ["b"]


def test_the_usual_actions_take_no_room() -> None:
    assert stored_actions(mirrored(NAMES)) is None


def test_a_binding_survives_its_encoding() -> None:
    binding = Binding(7, {"flow": to("site.flow"), "mode": DEFER})

    assert msgspec.json.decode(msgspec.json.encode(binding), type=Binding) == binding


def test_a_deferred_column_is_not_bound() -> None:
    assert decided_columns("ab", Binding(0, {"a": DEFER, "b": IGNORE})) == {"b"}


def test_the_newest_binding_of_a_column_is_the_one_that_is_inherited() -> None:
    older = ("ab", Binding(0, {"a": IGNORE, "b": to("x")}))
    newer = ("bc", Binding(1, {"b": to("y")}))

    assert joined([older, newer], "abc") == {"a": IGNORE, "b": to("y"), "c": MIRRORED}


def later(decided: Actions, *, policy: Policy = CREATING, **approved: ColumnAction) -> list[str]:
    """The columns at fault when these are decided after an approval that left `mode` for later."""
    whole = mirrored(NAMES) | {"mode": DEFER} | approved
    approval = Approval(TABLE, NAMES, whole, policy, KINDS, TYPED)
    return [fault.column for fault in approval.faults_of_later(decided)]


def test_a_column_that_was_left_for_later_can_be_decided() -> None:
    for action in (MIRRORED, IGNORE, CREATE, to("site.mode")):
        assert later({"mode": action}) == []


@pytest.mark.parametrize(
    ("decided", "at_fault"),
    [
        ({"flow": IGNORE}, ["flow"]),
        ({"speed": IGNORE}, ["speed"]),
        ({"mode": DEFER}, ["mode"]),
        ({"mode": to("site.flow")}, ["mode"]),
        ({"mode": to("pumps.id", Verb.AUTO_CREATE_AND_MAP)}, ["mode"]),
    ],
    ids=str,
)
def test_what_cannot_be_decided_later_names_its_fault(
    decided: Actions, at_fault: list[str]
) -> None:
    assert later(decided) == at_fault


def test_what_was_approved_before_is_not_judged_again() -> None:
    assert later({"mode": MIRRORED}, policy=Policy(), flow=CREATE) == []
    assert later({"mode": CREATE}, policy=Policy(), flow=CREATE) == ["mode"]


def test_a_binding_from_before_columns_were_decided_later_is_read() -> None:
    assert msgspec.json.decode(b"[5,null]", type=Binding) == Binding(5)
    assert msgspec.json.decode(b'[5,{"v":{"verb":"defer"}}]', type=Binding).deferred == ["v"]
