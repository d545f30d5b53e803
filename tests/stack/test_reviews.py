"""Reviews are queued many at once, and decided by people, each decision once."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from ilyama_protocol.governance.bindings import (
    Actions,
    Binding,
    ColumnAction,
    Verb,
    mirrored,
)
from ilyama_protocol.governance.policies import (
    FirstSchema,
    Policy,
    PolicyChoice,
    PolicyScope,
)
from ilyama_protocol.governance.reviews import ReviewState
from ilyama_resources.postgres import Gateway
from ilyama_resources.postgres.governance.bindings import BindingScope, PolicyAcceptance
from ilyama_service.policies import UnfitScope
from ilyama_service.reviewing import ReviewConflict, ReviewNotFound, UnfitActions
from tests.governed import (
    HASH,
    OTHER,
    SCHEMA,
    TABLE,
    act_on,
    asked,
    paused,
    queue,
    register,
    reviewing,
    reviews,
)
from tests.platform import Platform
from tests.waiting import eventually, somebody_waits

NAMES = [column.name for column in SCHEMA]
DEFER = ColumnAction(Verb.DEFER)


@pytest.fixture
def gateway(platform_without_spark: Platform) -> Gateway:
    return platform_without_spark.gateway


def states(gateway: Gateway) -> dict[str, str]:
    return {review.device_id: review.state.value for review in reviews(gateway)}


def bound(gateway: Gateway, *scopes: BindingScope) -> list[tuple[str, str]]:
    with gateway.transaction() as tx:
        return [(b.scope.scope_id, b.schema_hash) for b in tx.bindings.of(scopes) if b.approved]


def test_a_fleet_with_new_firmware_is_queued_in_one_go(gateway: Gateway) -> None:
    fleet = [f"dev-{number:04}" for number in range(3_000)]
    register(gateway, *fleet, project="waterworks")

    assert queue(gateway, *map(asked, fleet)) == 3_000
    assert queue(gateway, *map(asked, fleet), drain_id=8) == 0
    first = reviews(gateway)[0]
    assert (first.project_id, first.opened_by, first.action_version) == ("waterworks", 7, 1)
    assert (first.columns, first.evidence["diff"]) == (SCHEMA, {"dropped": ["old"]})
    assert paused(gateway) == fleet
    with gateway.transaction() as tx:
        [schema] = tx.open_reviews.schemas(limit=5)
        assert tx.reviews.counts() == {ReviewState.QUEUED: 3_000}
    assert (schema.source_table, schema.schema_hash, schema.project_id) == (
        TABLE,
        HASH,
        "waterworks",
    )
    assert (schema.devices, schema.first_review, schema.staged_rows) == (3_000, first.review_id, 0)


def test_a_schema_that_flips_between_two_hashes_asks_twice(gateway: Gateway) -> None:
    register(gateway, "dev-1")
    flips = [asked("dev-1", schema, received_at=n) for n in range(50) for schema in (HASH, OTHER)]

    assert queue(gateway, *reversed(flips)) == 2
    assert queue(gateway, *flips) == 0
    assert [review.first_received_at for review in reviews(gateway)] == [0, 0]
    assert paused(gateway) == ["dev-1"]


def test_reviews_of_one_drain_are_numbered_as_the_schemas_came(gateway: Gateway) -> None:
    register(gateway, "dev-1")
    hashes = [f"{number:02}" * 32 for number in (3, 1, 2)]
    queue(gateway, *(asked("dev-1", h, received_at=at) for at, h in enumerate(hashes)))

    assert [review.schema_hash for review in reviews(gateway)] == hashes


def test_an_approval_binds_resumes_and_is_audited(gateway: Gateway) -> None:
    register(gateway, "dev-1")
    queue(gateway, asked("dev-1"))
    (review,) = reviews(gateway)

    done = reviewing(gateway).approve(act_on(review, "looks good"))

    assert (done.state, done.action_version, done.decided_by) == ("approved", 2, "ann")
    assert done.actions == mirrored(NAMES)
    assert paused(gateway) == []
    assert bound(gateway, BindingScope.of("dev-1", None)) == [("dev-1", HASH)]
    with gateway.transaction() as tx:
        (line,) = tx.audit.page(limit=5)
    assert (line.actor, line.verb) == ("ann", "approve")
    assert line.resource == f"review/{review.review_id}"
    assert line.old == {"state": "queued", "action_version": 1}
    assert line.new["actions"] == dict.fromkeys(NAMES, "mirror")
    assert (line.new["resumed"], line.new["note"]) == (["dev-1"], "looks good")


def test_an_approval_is_shared_within_the_project_only(gateway: Gateway) -> None:
    register(gateway, "a-1", "a-2", "a-3", project="a")
    register(gateway, "b-1", project="b")
    register(gateway, "alone-1", "alone-2")
    every = ["a-1", "a-2", "a-3", "alone-1", "alone-2", "b-1"]
    queue(gateway, *map(asked, every), asked("a-3", OTHER))
    first = reviews(gateway)[0]

    reviewing(gateway).approve(act_on(first))

    approved = reviews(gateway, ReviewState.APPROVED)
    assert [review.device_id for review in approved] == ["a-1", "a-2", "a-3"]
    assert {review.shared_from for review in approved} == {None, first.review_id}
    assert paused(gateway) == ["a-3", "alone-1", "alone-2", "b-1"]
    assert queue(gateway, asked("a-1")) == 0
    assert "a-1" not in paused(gateway)


def test_a_device_that_comes_to_a_project_later_finds_the_schema_approved(
    gateway: Gateway,
) -> None:
    register(gateway, "a-1", "a-2", project="a")
    queue(gateway, asked("a-1"))
    reviewing(gateway).approve(act_on(reviews(gateway)[0]))

    assert queue(gateway, asked("a-2")) == 0
    assert paused(gateway) == []


def test_a_rejection_keeps_the_lineage_paused_and_is_not_asked_again(gateway: Gateway) -> None:
    register(gateway, "dev-1")
    queue(gateway, asked("dev-1"))

    reviewing(gateway).reject(act_on(reviews(gateway)[0], "a typo in the firmware"))

    assert queue(gateway, asked("dev-1")) == 0
    assert states(gateway) == {"dev-1": "rejected"}
    assert paused(gateway) == ["dev-1"]
    with gateway.transaction() as tx:
        assert tx.reviews.lapsed(["dev-1"]) == []
        assert tx.reviews.resume_lapsed([("dev-1", TABLE)]) == []


def test_another_approval_lets_a_lineage_go_on_after_a_rejection(gateway: Gateway) -> None:
    register(gateway, "dev-1")
    queue(gateway, asked("dev-1"))
    desk = reviewing(gateway)
    desk.reject(act_on(reviews(gateway)[0]))
    queue(gateway, asked("dev-1", OTHER))

    desk.approve(act_on(reviews(gateway)[1]))

    assert paused(gateway) == []


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize(
    ("verbs", "expected"), [(("reject", "approve"), []), (("approve", "reject"), ["dev-1"])]
)
def test_the_newest_review_speaks_for_its_lineage_whatever_was_decided_first(
    gateway: Gateway, verbs: tuple[str, str], expected: list[str], first: int
) -> None:
    register(gateway, "dev-1")
    queue(gateway, asked("dev-1"))
    queue(gateway, asked("dev-1", OTHER))
    desk, found = reviewing(gateway), reviews(gateway)
    for place in (first, 1 - first):
        getattr(desk, verbs[place])(act_on(found[place]))

    assert paused(gateway) == expected


def test_a_refused_schema_that_comes_again_pauses_until_an_accepted_one_comes(
    gateway: Gateway,
) -> None:
    register(gateway, "dev-1")
    queue(gateway, asked("dev-1"))
    desk = reviewing(gateway)
    desk.reject(act_on(reviews(gateway)[0]))
    queue(gateway, asked("dev-1", OTHER))
    desk.approve(act_on(reviews(gateway)[1]))

    assert queue(gateway, asked("dev-1")) == 0
    assert paused(gateway) == ["dev-1"]
    with gateway.transaction() as tx:
        assert tx.reviews.resume_lapsed([("dev-1", TABLE)]) == [("dev-1", TABLE)]


def test_an_abandoned_review_pauses_only_while_the_device_sends_the_schema(
    gateway: Gateway,
) -> None:
    register(gateway, "dev-1")
    queue(gateway, asked("dev-1"))
    desk = reviewing(gateway)
    desk.abandon(act_on(reviews(gateway)[0]))
    assert paused(gateway) == ["dev-1"]
    with gateway.transaction() as tx:
        assert tx.reviews.lapsed(["dev-1"]) == [("dev-1", TABLE)]
        assert tx.reviews.resume_lapsed([("dev-1", TABLE)]) == [("dev-1", TABLE)]
        tx.commit()
    assert paused(gateway) == []

    assert queue(gateway, asked("dev-1")) == 1
    with gateway.transaction() as tx:
        assert tx.reviews.resume_lapsed([("dev-1", TABLE)]) == []
    assert paused(gateway) == ["dev-1"]


def test_a_rejection_that_was_taken_back_does_not_keep_its_schema_from_being_asked_about(
    gateway: Gateway,
) -> None:
    register(gateway, "dev-1")
    queue(gateway, asked("dev-1"))
    desk = reviewing(gateway)
    desk.reject(act_on(reviews(gateway)[0]))
    assert queue(gateway, asked("dev-1")) == 0
    desk.reopen(act_on(reviews(gateway)[0]))
    desk.abandon(act_on(reviews(gateway, ReviewState.QUEUED)[0]))

    assert queue(gateway, asked("dev-1")) == 1


def test_an_approval_does_not_wait_for_a_newer_review_that_was_abandoned(
    gateway: Gateway,
) -> None:
    register(gateway, "dev-1")
    queue(gateway, asked("dev-1"))
    queue(gateway, asked("dev-1", OTHER))
    desk = reviewing(gateway)
    first, second = reviews(gateway)
    desk.abandon(act_on(second))
    assert paused(gateway) == ["dev-1"]

    desk.approve(act_on(first))

    assert paused(gateway) == []


def test_a_lineage_waits_for_every_open_review(gateway: Gateway) -> None:
    register(gateway, "dev-1")
    queue(gateway, asked("dev-1"), asked("dev-1", OTHER))
    desk = reviewing(gateway)
    first, second = reviews(gateway)

    desk.approve(act_on(first))
    assert paused(gateway) == ["dev-1"]
    desk.approve(act_on(second))
    assert paused(gateway) == []


@pytest.mark.parametrize("verb", ["start", "approve", "reject", "abandon"])
def test_a_stale_version_changes_nothing(gateway: Gateway, verb: str) -> None:
    register(gateway, "dev-1")
    queue(gateway, asked("dev-1"))
    stale = act_on(reviews(gateway)[0])
    desk = reviewing(gateway)
    desk.start(stale)
    before = reviews(gateway)

    with pytest.raises(ReviewConflict, match="has version 2, not 1"):
        getattr(desk, verb)(stale)

    assert reviews(gateway) == before
    assert before[0].state is ReviewState.IN_REVIEW
    assert paused(gateway) == ["dev-1"]
    with gateway.transaction() as tx:
        assert [line.verb for line in tx.audit.page(limit=5)] == ["start"]


@pytest.mark.parametrize("verb", ["start", "approve", "reject", "abandon"])
def test_what_was_decided_is_not_decided_again(gateway: Gateway, verb: str) -> None:
    register(gateway, "dev-1")
    queue(gateway, asked("dev-1"))
    desk = reviewing(gateway)
    done = desk.approve(act_on(reviews(gateway)[0]))

    with pytest.raises(ReviewConflict, match="is approved"):
        getattr(desk, verb)(act_on(done))


def test_two_people_who_approve_at_once_approve_once(gateway: Gateway) -> None:
    register(gateway, "dev-1")
    queue(gateway, asked("dev-1"))
    act = act_on(reviews(gateway)[0])

    def attempt(_: int) -> str:
        try:
            return reviewing(gateway).approve(act).state
        except ReviewConflict:
            return "conflict"

    with ThreadPoolExecutor(3) as people:
        outcomes = sorted(people.map(attempt, range(3)))
    assert outcomes == ["approved", "conflict", "conflict"]
    with gateway.transaction() as tx:
        assert len(tx.audit.page(limit=5)) == 1


def test_reviews_that_are_queued_while_their_schema_is_approved_do_not_stay_open(
    gateway: Gateway,
) -> None:
    fleet = [f"a-{number}" for number in range(40)]
    register(gateway, *fleet, project="a")
    queue(gateway, asked(fleet[0]))
    act = act_on(reviews(gateway)[0])

    with ThreadPoolExecutor(4) as threads:
        queued = [threads.submit(queue, gateway, asked(device)) for device in fleet[1:20]]
        approved = threads.submit(reviewing(gateway).approve, act)
        queued += [threads.submit(queue, gateway, asked(device)) for device in fleet[20:]]
        assert approved.result().state is ReviewState.APPROVED
        for done in queued:
            done.result()

    assert {*states(gateway).values()} == {"approved"}
    assert paused(gateway) == []


UNFIT: dict[str, Actions] = {
    "a column without an action": {"id": ColumnAction()},
    "a key that is not there": mirrored(NAMES) | {"flow": ColumnAction(Verb.MAP, "no.such")},
    "a key that may not be made": mirrored(NAMES)
    | {"flow": ColumnAction(Verb.AUTO_CREATE_AND_MAP)},
}


@pytest.mark.parametrize("actions", UNFIT.values(), ids=UNFIT.keys())
def test_unfit_actions_change_nothing(gateway: Gateway, actions: Actions) -> None:
    register(gateway, "dev-1")
    queue(gateway, asked("dev-1"))

    with pytest.raises(UnfitActions):
        reviewing(gateway, Policy()).approve(act_on(reviews(gateway)[0]), actions)

    assert states(gateway) == {"dev-1": "queued"}
    assert paused(gateway) == ["dev-1"]


def test_an_approval_makes_the_keys_that_it_names(gateway: Gateway) -> None:
    register(gateway, "dev-1")
    queue(gateway, asked("dev-1"))
    create = ColumnAction(Verb.AUTO_CREATE_AND_MAP, "site.flow")

    reviewing(gateway).approve(act_on(reviews(gateway)[0]), mirrored(NAMES) | {"flow": create})

    with gateway.transaction() as tx:
        assert tx.registries.kinds_of(["site.flow", "site.mode"]) == {"site.flow": "metric"}
        (binding,) = tx.bindings.of([BindingScope.of("dev-1", None)])
    assert binding.actions is not None
    assert binding.actions["flow"] == create
    assert binding.holds_from == 1_000


def test_a_deferred_key_keeps_the_lineage_paused_until_it_is_asked_again(
    gateway: Gateway,
) -> None:
    register(gateway, "dev-1")
    queue(gateway, asked("dev-1"))
    desk = reviewing(gateway)

    held = desk.approve(act_on(reviews(gateway)[0]), mirrored(NAMES) | {"id": DEFER})

    assert (held.state, paused(gateway)) == (ReviewState.APPROVED, ["dev-1"])
    assert bound(gateway, BindingScope.of("dev-1", None)) == []
    assert queue(gateway, asked("dev-1")) == 0
    with gateway.transaction() as tx:
        assert tx.reviews.lapsed(["dev-1"]) == []
    again = desk.reopen(act_on(held))
    desk.approve(act_on(again))
    assert paused(gateway) == []
    assert bound(gateway, BindingScope.of("dev-1", None)) == [("dev-1", HASH)]


def test_a_held_approval_holds_a_device_that_sends_the_schema_later_until_all_is_decided(
    gateway: Gateway,
) -> None:
    register(gateway, "a-1", "a-2", project="a")
    queue(gateway, asked("a-1"))
    desk = reviewing(gateway)
    held = desk.approve(act_on(reviews(gateway)[0]), mirrored(NAMES) | {"id": DEFER})

    assert queue(gateway, asked("a-2")) == 0
    assert queue(gateway, asked("a-2"), asked("a-1")) == 0
    _, later = reviews(gateway)
    assert (later.device_id, later.state, later.shared_from) == ("a-2", "approved", held.review_id)
    assert (later.actions, later.decided_by) == (held.actions, "ann")
    with gateway.transaction() as tx:
        assert tx.reviews.lapsed(["a-1", "a-2"]) == []

    desk.approve(act_on(desk.reopen(act_on(held))))
    assert paused(gateway) == []


def test_an_approval_that_binds_is_not_asked_again(gateway: Gateway) -> None:
    register(gateway, "dev-1")
    queue(gateway, asked("dev-1"))
    desk = reviewing(gateway)
    done = desk.approve(act_on(reviews(gateway)[0]), mirrored(NAMES) | {"mode": DEFER})

    assert paused(gateway) == []
    with pytest.raises(ReviewConflict):
        desk.reopen(act_on(done))


def test_the_notes_of_every_act_are_kept_and_audited(gateway: Gateway) -> None:
    register(gateway, "dev-1")
    queue(gateway, asked("dev-1"))
    desk = reviewing(gateway)

    started = desk.start(act_on(reviews(gateway)[0], "I look at it"))
    rejected = desk.reject(act_on(started))
    again = desk.reopen(act_on(rejected, "the pump was mended"))

    assert (started.note, rejected.note) == ("I look at it", "I look at it")
    assert again.note == "asked again by ann: the pump was mended"
    with gateway.transaction() as tx:
        told = [entry.new["note"] for entry in tx.audit.page(limit=5)]
    assert told == ["the pump was mended", None, "I look at it"]


def test_a_review_that_is_not_there_is_not_found(gateway: Gateway) -> None:
    register(gateway, "dev-1")
    queue(gateway, asked("dev-1"))
    act = act_on(reviews(gateway)[0])._replace(review_id=4_711)

    with pytest.raises(ReviewNotFound):
        reviewing(gateway).approve(act)


def test_what_a_policy_accepts_is_bound_but_not_approved(gateway: Gateway) -> None:
    register(gateway, "a-1", project="a")
    scope = BindingScope("project", "a")
    actions = {"flow": ColumnAction(Verb.IGNORE)}
    with gateway.transaction() as tx:
        tx.bindings.accept([PolicyAcceptance("a", TABLE, HASH, Binding(5, actions))] * 2)
        tx.commit()
    with gateway.transaction() as tx:
        tx.bindings.accept([PolicyAcceptance("a", TABLE, HASH, Binding(3))])
        (binding,) = tx.bindings.of([scope])
    assert (binding.approved, binding.holds_from, binding.actions) == (False, 5, actions)
    assert queue(gateway, asked("a-1")) == 1


def test_policies_are_chosen_by_scope_and_audited(gateway: Gateway) -> None:
    scope = PolicyScope("a", TABLE)
    desk = reviewing(gateway, Policy())

    desk.choose(PolicyScope("a"), PolicyChoice(allow_additive_continue=True), actor="ann")
    policy = desk.choose(scope, PolicyChoice(first_schema=FirstSchema.REVIEW), actor="ann")

    assert policy == Policy(FirstSchema.REVIEW, allow_additive_continue=True)
    with gateway.transaction() as tx:
        assert {*tx.policies.of(["a"])} == {PolicyScope("a"), scope}
        assert tx.policies.of(["b"]) == {}
        newest, _ = tx.audit.page(limit=5)
    assert (newest.verb, newest.new["first_schema"]) == ("set", "review")


def test_who_switches_at_once_with_another_loses_neither_switch(gateway: Gateway) -> None:
    scope, desk = PolicyScope("a"), reviewing(gateway, Policy())

    def create(old: PolicyChoice) -> PolicyChoice:
        return replace(old, allow_auto_create_datapoints=True)

    with ThreadPoolExecutor(1) as other:

        def add(old: PolicyChoice) -> PolicyChoice:
            second = other.submit(desk.change, scope, create, actor="bob")
            assert eventually(lambda: second.done() or somebody_waits(gateway))
            return replace(old, allow_additive_continue=True)

        desk.change(scope, add, actor="ann")

    with gateway.transaction() as tx:
        assert tx.policies.of(["a"])[scope] == PolicyChoice(None, True, True)


def test_no_policy_is_chosen_for_what_is_no_table(gateway: Gateway) -> None:
    with pytest.raises(UnfitScope):
        reviewing(gateway).choose(PolicyScope("a", "x\0"), PolicyChoice(), actor="ann")


def test_the_command_line_switches_only_what_it_names(platform_without_spark: Platform) -> None:
    platform = platform_without_spark
    platform.ilyama("policy", "--project", "a", "--additive", "on")
    platform.ilyama("policy", "--project", "a", "--auto-create", "off")
    unnamed = platform.try_ilyama("policy", "--project", "a", "--additive", "")
    refused = platform.try_ilyama("policy", "--table", "x\n", "--additive", "on")

    assert (refused.returncode, unnamed.returncode) == (1, 2)
    with platform.gateway.transaction() as tx:
        assert tx.policies.all() == {PolicyScope("a"): PolicyChoice(None, True, False)}
    asked = platform.ilyama("policy", "--project", "b", "--table", "pumps", "--json")
    [told] = json.loads(asked)["choices"]
    assert (told["project_id"], told["source_table"]) == ("b", "pumps")
    assert told["allow_additive_continue"] is False
