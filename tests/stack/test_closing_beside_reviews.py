"""A drain that closes and a person who approves do not wait for each other."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from ilyama_assets.drains.closing import close_drain
from ilyama_assets.drains.orders import Findings
from ilyama_assets.drains.sealing import Seal
from ilyama_protocol.intake.outcomes import Origin
from ilyama_resources.postgres import Gateway
from ilyama_resources.postgres.drains import Drain
from tests.governed import asked, register
from tests.platform import Platform
from tests.waiting import eventually, somebody_waits

KEYS = {"plant.flow": "metric"}


def test_a_drain_with_reviews_and_an_approval_may_create_the_same_key(
    platform_without_spark: Platform,
) -> None:
    gateway = platform_without_spark.gateway
    register(gateway, "dev-1")
    drain = sealed_drain(gateway)
    with ThreadPoolExecutor(1) as pool:
        with gateway.transaction() as tx:
            tx.reviews.alone()
            closing = pool.submit(closed, gateway, drain)
            assert eventually(lambda: somebody_waits(gateway))
            tx.registries.ensure_keys(KEYS)
            tx.commit()
        closing.result(timeout=60)


def sealed_drain(gateway: Gateway) -> Drain:
    with gateway.transaction() as tx:
        tx.drains.open(1, datetime.now(UTC).date(), origin=Origin.LIVE)
        tx.drains.seal(1, b"")
        drain = tx.drains.find(1)
        tx.commit()
    assert drain is not None
    return drain


def closed(gateway: Gateway, drain: Drain) -> None:
    seal = Seal([], [], [], [], [], KEYS, [], Findings(), reviews=[asked("dev-1")])
    with gateway.transaction() as tx:
        close_drain(tx, drain, seal, served_instances=1_000)
        tx.commit()
