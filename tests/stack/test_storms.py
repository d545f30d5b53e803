"""Who sends more than all others is named, be it a device or not."""

import shutil
from datetime import UTC, datetime

import pytest

from ilyama_protocol.intake.outcomes import Message
from ilyama_protocol.moments import micros
from ilyama_resources.landing.directory import Landing, register
from ilyama_resources.landing.segment_ids import RisingIds
from ilyama_resources.postgres.devices import RegisteredDevice
from ilyama_service.stack.storms import BusiestDevice, busiest_device
from tests.api_records import total_of
from tests.platform import Platform

NOW = datetime.now(UTC)
SENT = {
    "acme/dev-1/sync/rows/batch": 5,
    "devices/dev-2/telemetry": 5,
    "acme/ghost/sync/rows/batch": 3,
    "acme/ghost/sync/telemetry/batch": 3,
    "acme/ghoul/sync/rows/batch": 5,
    "nowhere": 4,
}
REGISTERED = {"acme/dev-1": ("acme", "dev-1"), "dev-2": ("acme", "second")}


@pytest.fixture
def landing(platform_without_spark: Platform) -> Landing:
    """Segments of one drain, a message each, mostly of topics that nobody has registered."""
    landing, ids = Landing(platform_without_spark.settings.landing), RisingIds()
    segments = [
        landing.write(ids.next(), [Message("", 0, topic, b"{}", micros(NOW))] * count)
        for topic, count in SENT.items()
    ]
    register(platform_without_spark.gateway, segments)
    day = segments[0].day
    with platform_without_spark.gateway.transaction() as tx:
        known = [RegisteredDevice(name, *root, None) for name, root in REGISTERED.items()]
        tx.devices.register(known, auto=True)
        tx.drains.open(1, day, origin="live")
        tx.segments.take(day, 1, at_most_bytes=1000)
        tx.drains.seal(1, b"")
        for device_id, messages in (("", 15), ("acme/dev-1", 5), ("dev-2", 5)):
            total = total_of(device_id, "rejected", messages=messages, rows=0)
            tx.ledger.add([total._replace(drain_id=1, day=day)])
        tx.drains.close(1)
        tx.commit()
    return landing


def busiest(platform: Platform, landing: Landing) -> BusiestDevice | None:
    with platform.gateway.transaction() as tx:
        return busiest_device(tx, landing, now=NOW)


def test_of_topics_that_belong_to_no_device_the_busiest_root_is_named(
    platform_without_spark: Platform, landing: Landing
) -> None:
    found = busiest(platform_without_spark, landing)
    assert found == BusiestDevice("", 15, 25, "acme/ghost")
    assert found.named == "topics of no registered device, most of them under acme/ghost,"


def test_it_is_named_when_its_segments_are_put_away_but_not_when_they_are_gone(
    platform_without_spark: Platform, landing: Landing
) -> None:
    assert landing.put_away(platform_without_spark.gateway, now=NOW) == len(SENT)
    assert busiest(platform_without_spark, landing) == BusiestDevice("", 15, 25, "acme/ghost")
    shutil.rmtree(platform_without_spark.settings.landing / "drained")
    found = busiest(platform_without_spark, landing)
    assert found == BusiestDevice("", 15, 25, None)
    assert found.named == "topics of no registered device"
