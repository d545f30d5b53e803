"""What is staged is released when nothing holds it, and intake never waits for it."""

from datetime import date
from typing import NoReturn

import pytest

from ilyama_assets.drains.errors import ReleaseFailed
from ilyama_assets.drains.protocol import Intake
from ilyama_protocol.governance.bindings import Binding
from ilyama_protocol.intake.lineage_rulings import PauseReason, StagingReason
from ilyama_resources.landing.directory import Landing
from ilyama_resources.postgres import Gateway
from ilyama_resources.postgres.drains import DrainState
from ilyama_resources.postgres.governance.bindings import BindingScope, PolicyAcceptance
from ilyama_resources.postgres.staged_backlog import StagedSum
from tests.governed import HASH, TABLE, act_on, asked, queue, register, reviewing, reviews
from tests.platform import Platform

DAY = date(2026, 4, 28)


@pytest.fixture
def gateway(platform_without_spark: Platform) -> Gateway:
    return platform_without_spark.gateway


def staged(device_id: str, drain_id: int = 1) -> StagedSum:
    place = (device_id, TABLE, StagingReason.LINEAGE_PAUSED.value, HASH, drain_id)
    return StagedSum(*place, rows=5, bytes=100)


def waiting(device_id: str) -> StagedSum:
    return staged(device_id)._replace(staging_reason=StagingReason.SCHEMA_REVIEW.value)


def accept(gateway: Gateway, device_id: str, project: str | None) -> None:
    with gateway.transaction() as tx:
        tx.bindings.accept([PolicyAcceptance(project, TABLE, HASH, Binding(5), device_id)])
        tx.commit()


def stage(gateway: Gateway, *sums: StagedSum) -> None:
    with gateway.transaction() as tx:
        tx.backlog.add(sums)
        tx.commit()


def free(gateway: Gateway, size: int = 10_000) -> list[StagedSum]:
    with gateway.transaction() as tx:
        return tx.backlog.releasable(at_most_bytes=size)


def test_a_release_that_does_not_find_its_rows_is_given_up_and_intake_goes_on(
    platform_without_spark: Platform, gateway: Gateway
) -> None:
    platform = platform_without_spark
    register(gateway, "dev-1", "dev-2")
    lost, there = staged("dev-1"), staged("dev-2")
    stage(gateway, lost, there)

    def fail() -> NoReturn:
        raise ReleaseFailed("5 staged rows are not there", [lost])

    landing = Landing(platform.settings.landing)
    intake = Intake(platform.settings, gateway, landing, platform.warehouse, session=fail)
    intake.prepare()
    with pytest.raises(ReleaseFailed):
        intake.release(DAY)

    with gateway.transaction() as tx:
        (drain,) = tx.drains.page(limit=5)
        assert tx.drains.unfinished() is None
        assert tx.backlog.tables_of(["dev-1", "dev-2"]) == {"dev-2": [TABLE]}
    assert drain.state is DrainState.DONE
    assert drain.note == "the release was given up: 5 staged rows are not there"
    assert free(gateway) == [there]


@pytest.mark.parametrize("project", ["a", None])
def test_rows_of_a_schema_that_a_policy_accepted_since_are_released(
    gateway: Gateway, project: str | None
) -> None:
    register(gateway, "dev-1", "dev-2", project=project)
    sums = [waiting(device_id) for device_id in ("dev-1", "dev-2")]
    stage(gateway, *sums)
    assert free(gateway) == []

    accept(gateway, "dev-1", project)

    assert free(gateway) == sums[:1]
    with gateway.transaction() as tx:
        assert tx.backlog.tables_of(["dev-1", "dev-2"]) == {"dev-1": [TABLE]}
        scopes = [BindingScope.of("dev-1", project)]
        assert tx.bindings.of(scopes, approved_only=True) == []


def test_rows_of_a_refused_schema_stay_when_a_policy_accepts_it_of_another_device(
    gateway: Gateway,
) -> None:
    register(gateway, "dev-1", "dev-2", project="a")
    queue(gateway, asked("dev-1"))
    stage(gateway, waiting("dev-1"))
    reviewing(gateway).reject(act_on(reviews(gateway)[0]))
    with gateway.transaction() as tx:
        tx.pauses.clear([("dev-1", TABLE)], PauseReason.SCHEMA_REVIEW)
        tx.commit()

    accept(gateway, "dev-2", "a")

    assert free(gateway) == []


def test_missing_rows_are_looked_for_again_when_somebody_asks(gateway: Gateway) -> None:
    register(gateway, "dev-1")
    stage(gateway, staged("dev-1"))
    with gateway.transaction() as tx:
        tx.backlog.miss([staged("dev-1")])
        tx.commit()
    assert free(gateway) == []

    with gateway.transaction() as tx:
        assert tx.backlog.retry(StagingReason.ENGINE_ERROR) == [5]
        tx.commit()
    assert free(gateway) == [staged("dev-1")]


def test_what_one_drain_staged_of_a_lineage_is_released_together(gateway: Gateway) -> None:
    register(gateway, "dev-1", "dev-2")
    both = [staged("dev-1")._replace(schema_hash=name) for name in ("a", "b")]
    stage(gateway, *both, staged("dev-1", 2), staged("dev-2"))

    assert free(gateway, 100) == both
    assert free(gateway, 300) == [*both, staged("dev-2")]
    assert free(gateway, 400) == [*both, staged("dev-2"), staged("dev-1", 2)]


def test_telemetry_is_released_first_then_rows_by_epoch_and_commit(gateway: Gateway) -> None:
    register(gateway, "dev-1")
    turns = [(1, 5), (0, 70), (), (0, 8), ()]
    sums = [staged("dev-1", drain)._replace(turn=turn) for drain, turn in enumerate(turns, 1)]
    stage(gateway, *sums)

    order = [3, 5, 4, 2, 1]
    assert [found.drain_id for found in free(gateway)] == order
    assert [found.drain_id for found in free(gateway, 300)] == order[:3]
    assert free(gateway, 100) == [sums[2]]


def test_what_one_drain_staged_of_a_lineage_has_the_first_turn_of_it(gateway: Gateway) -> None:
    register(gateway, "dev-1")
    early, late = (
        staged("dev-1", 2)._replace(schema_hash=name, turn=turn)
        for name, turn in (("b", (0, 1)), ("a", (0, 90)))
    )
    between = staged("dev-1", 1)._replace(turn=(0, 50))
    stage(gateway, early, late, between)

    assert free(gateway) == [early, late, between]


@pytest.mark.parametrize("reason", [PauseReason.OPERATOR, PauseReason.CIRCUIT_OPEN])
def test_what_was_approved_waits_while_its_lineage_is_paused_for_more(
    gateway: Gateway, reason: PauseReason
) -> None:
    register(gateway, "dev-1", "dev-2")
    paused, approved = waiting("dev-1"), waiting("dev-2")
    stage(gateway, paused, approved)
    for device_id in ("dev-1", "dev-2"):
        accept(gateway, device_id, None)
    with gateway.transaction() as tx:
        tx.pauses.add([("dev-1", TABLE)], reason)
        tx.pauses.add([("dev-2", TABLE)], PauseReason.BACKPRESSURE)
        tx.commit()

    assert free(gateway) == [approved]
    with gateway.transaction() as tx:
        tx.pauses.clear([("dev-1", TABLE)], reason)
        tx.commit()
    assert free(gateway) == [paused, approved]
