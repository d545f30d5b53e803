"""Acknowledgements, as a broker sees them."""

import struct
from threading import Thread

import pytest

from ilyama_resources.mqtt import connection as connections
from tests.unit.mqtt.brokers import connected

PUBACK = struct.Struct("!BBH")


def test_every_message_is_acknowledged_in_its_order() -> None:
    numbers = [*range(1, 65_536)] * 5
    with connected() as (connection, broker):
        telling = Thread(target=connection.acknowledge, args=(numbers,))
        telling.start()
        received = b""
        while len(received) < len(numbers) * PUBACK.size:
            received += broker.recv(2**20)
        telling.join()
        assert connection.is_open
    assert [*PUBACK.iter_unpack(received)] == [(0x40, 2, number) for number in numbers]


def test_a_broker_that_takes_no_acknowledgement_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "_ANSWER_WITHIN_S", 0.5)
    with connected() as (connection, _):
        connection.acknowledge([1] * 5_000_000)
        connection.turn()
        assert not connection.is_open


def test_a_connection_that_is_gone_takes_no_acknowledgement() -> None:
    with connected() as (connection, broker):
        broker.close()
        connection.turn()
        connection.acknowledge([1, 2, 3])
        assert not connection.is_open
