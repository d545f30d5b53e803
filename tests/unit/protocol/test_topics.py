import pytest

from ilyama_protocol.topics import MessageKind, kind_of, parse_topic


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
