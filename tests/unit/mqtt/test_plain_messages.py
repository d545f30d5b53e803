"""The short way to read a message and the client library's own say the same."""

from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt._packet import decode_publish
from paho.mqtt.enums import MQTTProtocolVersion

from ilyama_resources.mqtt.reading_client import _plain_message

topics = st.text(max_size=40).map(str.encode) | st.binary(max_size=40)
NO_PROPERTIES = b"\x00"
USER_PROPERTY = b"\x07\x26\x00\x01k\x00\x01v"


def packet(topic: bytes, number: bytes, properties: bytes, payload: bytes) -> bytearray:
    return bytearray(len(topic).to_bytes(2, "big") + topic + number + properties + payload)


@given(topics, st.binary(max_size=300), st.integers(0, 1), st.integers(1, 0xFFFF), st.booleans())
def test_a_message_without_properties_is_read_as_the_library_reads_it(
    topic: bytes, payload: bytes, qos: int, number: int, retained: bool
) -> None:
    head = 0x30 | qos << 1 | retained
    sent = packet(topic, number.to_bytes(2, "big") if qos else b"", NO_PROPERTIES, payload)
    read = _plain_message(head, sent)
    theirs = decode_publish(head, sent, MQTTProtocolVersion.MQTTv5)
    assert read is not None
    assert (read.mid, read.qos, bytes(read.payload)) == (theirs.mid, theirs.qos, theirs.payload)
    assert read._topic == theirs.topic  # noqa: SLF001


@given(topics, st.binary(max_size=30), st.integers(0, 1))
def test_properties_are_left_to_the_library(topic: bytes, payload: bytes, qos: int) -> None:
    sent = packet(topic, b"\x00\x07" * qos, USER_PROPERTY, payload)
    assert _plain_message(0x30 | qos << 1, sent) is None


@given(st.binary(max_size=12), st.integers(0, 3))
def test_half_a_packet_is_left_to_the_library(beginning: bytes, qos: int) -> None:
    sent = bytearray(b"\x00\x10" + beginning)
    assert _plain_message(0x30 | qos << 1, sent) is None


def test_qos_2_is_left_to_the_library() -> None:
    assert _plain_message(0x34, packet(b"t", b"\x00\x07", NO_PROPERTIES, b"")) is None
