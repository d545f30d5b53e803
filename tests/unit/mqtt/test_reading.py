"""What a broker sends at once is read at once, and delivered message by message."""

import socket
from threading import Thread

from paho.mqtt.client import MQTTMessage

from ilyama_resources.mqtt.connection import Connection
from tests.unit.mqtt.brokers import connected

MESSAGES = 1000


def publish(number: int, size: int) -> bytes:
    body = b"\x00\x01t" + number.to_bytes(2, "big") + b"\x00" + b"%06d" % number + b"." * size
    length, left = b"", len(body)
    while True:
        left, digit = divmod(left, 128)
        length += bytes([digit | (0x80 if left else 0)])
        if not left:
            return b"\x32" + length + body


def test_everything_is_delivered_once_and_in_order() -> None:
    taken: list[bytes | bytearray] = []

    def note(_: Connection, message: MQTTMessage) -> None:
        taken.append(message.payload)

    sizes = [10, 300, 200_000, 20_000]
    packets = [publish(n + 1, sizes[n % len(sizes)]) for n in range(MESSAGES)]
    with connected(note) as (connection, broker):
        sending = Thread(target=broker.sendall, args=(b"".join(packets),))
        sending.start()
        while len(taken) < MESSAGES:
            connection.turn()
        sending.join()
        assert not connection.has_unread
    assert [int(payload[:6]) for payload in taken] == [*range(1, MESSAGES + 1)]
    assert [len(payload) - 6 for payload in taken] == sizes * (MESSAGES // len(sizes))


def test_what_was_read_ahead_is_told() -> None:
    taken: list[bytes | bytearray] = []
    with connected(lambda _, message: taken.append(message.payload)) as (connection, broker):
        broker.sendall(b"".join(publish(n + 1, 10) for n in range(150)))
        while not taken:
            connection.turn(wants_more=lambda: not taken)
        assert (len(taken), connection.has_unread) == (1, True)
        while connection.has_unread:
            connection.turn()
        assert len(taken) == 150


def test_a_broker_that_leaves_is_noticed_after_what_it_sent() -> None:
    taken: list[bytes | bytearray] = []
    with connected(lambda _, message: taken.append(message.payload)) as (connection, broker):
        broker.sendall(b"".join(publish(n + 1, 10) for n in range(20)))
        broker.shutdown(socket.SHUT_RDWR)
        while connection.is_open:
            connection.turn()
        assert len(taken) == 20
