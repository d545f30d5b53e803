"""What an approval has left for later is decided by people, each decision once."""

import pytest

from ilyama_protocol.governance.bindings import MIRRORED, ColumnAction, Verb, mirrored
from ilyama_protocol.governance.reviews import ReviewVerb
from ilyama_resources.postgres import Gateway
from ilyama_resources.postgres.governance.bindings import BindingScope
from ilyama_resources.postgres.governance.reviews import Review
from ilyama_service.reviewing import ReviewConflict, UnfitActions
from tests.governed import SCHEMA, act_on, asked, queue, register, reviewing, reviews
from tests.platform import Platform

NAMES = [column.name for column in SCHEMA]
DEFER, IGNORE = ColumnAction(Verb.DEFER), ColumnAction(Verb.IGNORE)


@pytest.fixture
def gateway(platform_without_spark: Platform) -> Gateway:
    return platform_without_spark.gateway


def left_for_later(gateway: Gateway, *columns: str) -> Review:
    """An approval, shared by two devices, that leaves columns for later."""
    register(gateway, "a-1", "a-2", project="a")
    queue(gateway, asked("a-1"), asked("a-2"))
    first = reviews(gateway)[0]
    actions = mirrored(NAMES) | dict.fromkeys(columns, DEFER)
    return reviewing(gateway).approve(act_on(first), actions)


def test_a_decision_changes_the_binding_of_all_who_share_it(gateway: Gateway) -> None:
    review = left_for_later(gateway, "mode", "flow")

    done = reviewing(gateway).decide(act_on(review, "we need it"), {"mode": IGNORE})

    expected = mirrored(NAMES) | {"mode": IGNORE, "flow": DEFER}
    assert (done.state, done.action_version, done.note) == ("approved", 3, "we need it")
    assert [r.actions for r in reviews(gateway)] == [expected, expected]
    with gateway.transaction() as tx:
        (binding,) = tx.bindings.of([BindingScope.of("a-1", "a")])
        line = tx.audit.page(limit=1)[0]
    assert binding.actions == expected
    assert (line.verb, line.new["actions"]) == (ReviewVerb.DECIDE, {"mode": "ignore"})
    assert (line.old["action_version"], line.new["action_version"]) == (2, 3)


def test_one_who_shares_the_approval_decides_for_all(gateway: Gateway) -> None:
    left_for_later(gateway, "mode")
    shared = reviews(gateway)[1]

    reviewing(gateway).decide(act_on(shared), {"mode": MIRRORED})

    assert [r.actions for r in reviews(gateway)] == [mirrored(NAMES)] * 2
    with gateway.transaction() as tx:
        (binding,) = tx.bindings.of([BindingScope.of("a-1", "a")])
    assert binding.actions is None


def test_a_stale_version_changes_nothing(gateway: Gateway) -> None:
    review = left_for_later(gateway, "mode")
    desk = reviewing(gateway)
    desk.decide(act_on(review), {"mode": IGNORE})

    with pytest.raises(ReviewConflict, match="version"):
        desk.decide(act_on(review), {"mode": MIRRORED})


@pytest.mark.parametrize("column", ["flow", "other"])
def test_only_what_was_left_for_later_can_be_decided(gateway: Gateway, column: str) -> None:
    review = left_for_later(gateway, "mode")

    with pytest.raises(UnfitActions, match=column):
        reviewing(gateway).decide(act_on(review), {column: IGNORE})


def test_an_approval_that_keeps_its_lineage_paused_is_reopened_instead(gateway: Gateway) -> None:
    review = left_for_later(gateway, "id")

    with pytest.raises(ReviewConflict, match="reopen"):
        reviewing(gateway).decide(act_on(review), {"id": MIRRORED})


def test_a_review_that_is_open_has_nothing_to_decide_later(gateway: Gateway) -> None:
    register(gateway, "a-1")
    queue(gateway, asked("a-1"))

    with pytest.raises(ReviewConflict, match="queued"):
        reviewing(gateway).decide(act_on(reviews(gateway)[0]), {"mode": IGNORE})


def test_a_key_is_made_for_a_column_that_wants_one(gateway: Gateway) -> None:
    review = left_for_later(gateway, "flow")
    create = ColumnAction(Verb.AUTO_CREATE_AND_MAP, "site.flow")

    reviewing(gateway).decide(act_on(review), {"flow": create})

    with gateway.transaction() as tx:
        assert tx.registries.kinds_of(["site.flow"]) == {"site.flow": "metric"}
