"""A line of captured traffic is a CloudEvent that carries one MQTT message."""

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from ilyama_protocol.moments import micros
from ilyama_service.cloudevents import NotACloudEvent, message_of, message_received, texts_of

ABSENT: Any = object()
PAYLOAD = bytes(range(256))
NOW = 1_777_366_800_000_000


def _line(**members: Any) -> bytes:
    event = {
        "specversion": "1.0",
        "id": "1",
        "source": "hub",
        "type": "MQTT.EventPublished",
        "subject": "acme/dev-1/sync/rows/batch",
        "time": "2026-04-28T09:00:00.123456Z",
        "data_base64": base64.b64encode(PAYLOAD).decode(),
    } | members
    return json.dumps({k: v for k, v in event.items() if v is not ABSENT}).encode()


def test_a_message_is_the_bytes_the_topic_and_the_time() -> None:
    message = message_of(_line(), now=NOW)

    assert message.payload == PAYLOAD
    assert message.topic == "acme/dev-1/sync/rows/batch"
    assert message.landed_at == micros(datetime(2026, 4, 28, 9, 0, 0, 123456, tzinfo=UTC))


@pytest.mark.parametrize(
    "topic", ["", "/dev/sync/rows/batch", "zakład/é", "a\0b", "no topic at all"]
)
def test_the_subject_is_the_topic_whatever_it_is(topic: str) -> None:
    assert message_of(_line(subject=topic), now=NOW).topic == topic


@pytest.mark.parametrize(
    ("time", "landed_at"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T02:00:00+02:00", 0),
        ("1970-01-01t00:00:00.0000019z", 1),
        ("0001-01-01T00:00:00Z", -62_135_596_800_000_000),
        ("9998-12-31T23:59:59.999999Z", 253_370_764_799_999_999),
    ],
)
def test_the_time_is_kept_in_microseconds(time: str, landed_at: int) -> None:
    assert message_of(_line(time=time), now=NOW).landed_at == landed_at


@pytest.mark.parametrize("time", [ABSENT, None])
def test_an_event_without_a_time_is_received_now(time: Any) -> None:

    landed_at = message_of(_line(time=time), now=NOW).landed_at

    assert landed_at == NOW


def test_other_attributes_are_ignored() -> None:
    assert (
        message_of(_line(datacontenttype="application/json", extra={"a": 1}), now=NOW).payload
        == PAYLOAD
    )


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        _line(specversion="0.3"),
        _line(specversion=ABSENT),
        _line(id=""),
        _line(id=ABSENT),
        _line(source=""),
        _line(type=ABSENT),
        _line(subject=ABSENT),
        _line(subject=None),
        _line(data_base64=ABSENT, data={"rows": []}),
        _line(data_base64="no base64!"),
        _line(time="yesterday"),
        _line(time="2026-04-28 09:00:00Z"),
        _line(time="2026-04-28T09:00:00"),
        _line(time="9999-01-01T00:00:00Z"),
        _line(time=5),
    ],
)
def test_a_line_that_is_no_event_is_refused_with_a_reason(line: bytes) -> None:
    with pytest.raises(NotACloudEvent, match=r"\S"):
        message_of(line, now=NOW)


@pytest.mark.parametrize("time", [ABSENT, None, "2001-01-01T00:00:00Z", "yesterday"])
def test_an_event_that_arrives_now_is_received_now(time: Any) -> None:
    assert message_received(_line(time=time), now=NOW).landed_at == NOW


def test_an_event_with_data_is_told_where_the_payload_goes() -> None:
    with pytest.raises(NotACloudEvent, match="data_base64 only, never from data"):
        message_received(_line(data_base64=ABSENT, data={"rows": []}), now=NOW)


@pytest.mark.parametrize("member", ['"subject": "a/b"', '"data": {"x": 1, "x": 1}'])
def test_an_event_that_says_something_twice_is_refused_over_http(member: str) -> None:
    text = _line()[:-1] + f", {member}}}".encode()
    with pytest.raises(NotACloudEvent, match="twice in one object"):
        message_received(text, now=NOW)


def test_a_batch_is_the_texts_of_its_events() -> None:
    texts = texts_of(b"[" + _line(id="1") + b", " + _line(id="2") + b"]")
    assert [message_received(text, now=NOW).payload for text in texts] == [PAYLOAD, PAYLOAD]


@pytest.mark.parametrize("batch", [b"", b"{}", b"[", b"[1,]", b"null", b"[" * 100_000])
def test_what_is_no_array_is_no_batch(batch: bytes) -> None:
    with pytest.raises(NotACloudEvent, match=r"\S"):
        texts_of(batch)
