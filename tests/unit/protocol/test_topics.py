import pytest
from paho.mqtt.client import topic_matches_sub

from ilyama_protocol.topics import (
    DEVICE_PATHS,
    INBOUND_FILTERS,
    SYNC_PATHS,
    MessageKind,
    kind_of,
    parse_topic,
    trouble_with,
)


@pytest.mark.parametrize(
    ("topic", "kind", "topic_slug", "device_name"),
    [
        ("acme/dev-1/sync/rows/batch", MessageKind.ROWS, "acme", "dev-1"),
        ("acme/dev-1/sync/telemetry/batch", MessageKind.TELEMETRY, "acme", "dev-1"),
        ("acme/dev-1/sync/schema/observe", MessageKind.OBSERVE, "acme", "dev-1"),
        ("acme/dev-1/sync/ingest/ack", MessageKind.ACK, "acme", "dev-1"),
        ("acme/dev-1/sync/ingest/request", MessageKind.REQUEST, "acme", "dev-1"),
        ("/dev-1/sync/rows/batch", MessageKind.ROWS, "", "dev-1"),
        ("a.b/ü 1/sync/rows/batch", MessageKind.ROWS, "a.b", "ü 1"),
        ("devices/d1/telemetry", MessageKind.DEVICE, "", "d1"),
        ("devices/d1/config/status/firmware", MessageKind.DEVICE, "", "d1"),
        ("devices/d1/config/status/mqtt", MessageKind.DEVICE, "", "d1"),
        ("devices/d1/config/status/other", None, "", "d1"),
        ("devices/d1/config/operation", None, "", "d1"),
        ("devices/d1/sync/rows/batch", None, "", "d1"),
        ("acme/dev-1/sync/ingest/control", None, "acme", "dev-1"),
        ("acme/dev-1/sync/rows/batch/", None, "acme", "dev-1"),
        ("acme/dev-1/sync", None, "acme", "dev-1"),
        ("acme/dev-1/synchronous", None, None, None),
        ("acme/dev-1/telemetry", None, None, None),
        ("acme/a/b/sync/rows/batch", None, None, None),
        ("acme//sync/rows/batch", None, None, None),
        ("//sync/rows/batch", None, None, None),
        ("cdc/dev-1/sync/rows/batch", None, None, None),
        ("$SYS/dev-1/sync/rows/batch", None, None, None),
        ("Acme/+/sync/rows/batch", None, None, None),
        ("acme/dev-1/sync/#", None, None, None),
        ("acme/dev\0/sync/rows/batch", None, None, None),
        ("devices/d+/telemetry", None, None, None),
        ("devices//telemetry", None, None, None),
        ("devices/d1", None, None, None),
        ("sync/rows/batch", None, None, None),
        ("", None, None, None),
    ],
)
def test_a_topic_says_who_sends_what(
    topic: str, kind: MessageKind | None, topic_slug: str | None, device_name: str | None
) -> None:
    address = parse_topic(topic)

    assert address.topic == topic
    assert (address.kind, address.topic_slug, address.device_name) == (
        kind,
        topic_slug,
        device_name,
    )


@pytest.mark.parametrize(
    "path", ["", "sync", "Sync/rows/batch", "/sync/rows/batch", "sync/rows/batch/", "telemetry"]
)
def test_what_is_below_no_root_has_no_kind(path: str) -> None:
    assert kind_of(path) is None


@pytest.mark.parametrize(
    "topic",
    [
        *(f"acme/dev/{path}" for path in SYNC_PATHS),
        *(f"/dev/{path}" for path in SYNC_PATHS),
        *(f"devices/dev/{path}" for path in sorted(DEVICE_PATHS)),
    ],
)
def test_the_platform_subscribes_to_everything_that_a_device_may_send(topic: str) -> None:
    assert parse_topic(topic).kind is not None
    assert sum(topic_matches_sub(wanted, topic) for wanted in INBOUND_FILTERS) == 1


@pytest.mark.parametrize(
    "topic",
    ["acme/dev/sync/ingest/control", "devices/dev/config/network", "acme/dev/sync/rows", "cdc/x/y"],
)
def test_the_platform_does_not_subscribe_to_what_it_sends_itself(topic: str) -> None:
    assert not any(topic_matches_sub(wanted, topic) for wanted in INBOUND_FILTERS)


@pytest.mark.parametrize(
    ("topic", "trouble"),
    [
        ("acme/dev-1/sync/ingest/control", "the platform's own"),
        ("sync/ingest/control", "the platform's own"),
        ("acme/dev-1/sync/rows/batch/", "leave the slash out"),
        ("cdc/dev-1/sync/rows/batch", "slug cdc is reserved"),
        ("devices/dev-1/sync/rows/batch", "slug devices is reserved"),
        ("$SYS/dev-1/sync/rows/batch", "begin with $"),
        ("acme//sync/rows/batch", "no device name"),
        ("acme/dev-1/extra/sync/rows/batch", "exactly two levels"),
        ("acme/+/sync/rows/batch", "neither + nor #"),
        ("acme/dev-1/sync/rows", "nothing is received on this topic"),
        ("", "nothing is received on this topic"),
        (None, "nothing is received on this topic"),
    ],
)
def test_the_trouble_with_a_topic_is_named_with_those_that_are_received(
    topic: str | None, trouble: str
) -> None:
    told = trouble_with(topic)

    assert trouble in told
    assert all(path in told for path in SYNC_PATHS)


@pytest.mark.parametrize("below", ["config/status/bogus", "config/network", ""])
def test_a_device_on_its_own_channel_is_told_the_topics_of_that(below: str) -> None:
    told = trouble_with(f"devices/dev-1/{below}".removesuffix("/"))

    assert told.startswith("nothing is received on this topic; publish on devices/{device_id}/")
    assert "config/status/network" in told
    assert "sync/" not in told
