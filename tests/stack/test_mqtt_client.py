from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from uuid import uuid4

import pytest

from ilyama_resources.embedded.ports import free_port
from ilyama_resources.mqtt.address import BrokerAddress
from ilyama_resources.mqtt.client import MqttClient
from ilyama_resources.mqtt.errors import BrokerUnavailable
from ilyama_resources.settings import Settings
from tests.waiting import eventually

CONTROL = "acme/dev-7/sync/ingest/control"
ACK = "acme/dev-7/sync/ingest/ack"


@pytest.fixture
def address(broker_url: str) -> BrokerAddress:
    return BrokerAddress.of(broker_url, Settings())


@contextmanager
def hearing(client: MqttClient, topic: str) -> Iterator[list[bytes]]:
    heard: list[bytes] = []
    client.listen(topic, lambda _, payload: heard.append(payload))
    with client:
        yield heard


def new_client(address: BrokerAddress, **options: bool | int) -> MqttClient:
    return MqttClient(address, f"test-{uuid4().hex[:8]}", **options)  # type: ignore[arg-type]


def test_what_is_published_is_heard_and_acknowledged(address: BrokerAddress) -> None:
    topic = f"{uuid4().hex}/dev/sync/ingest/control"
    with hearing(new_client(address), topic) as heard, new_client(address) as sender:
        tickets = [sender.publish(topic, b"%d" % number) for number in range(300)]
        for ticket in tickets:
            ticket.result(30)
        assert eventually(lambda: len(heard) == 300)
        assert sorted(map(int, heard)) == list(range(300))
        assert sender.counters.acknowledged == sender.counters.published == 300
        assert sender.unacknowledged() == 0


def test_an_error_in_a_listener_does_not_stop_it(address: BrokerAddress) -> None:
    topic = f"{uuid4().hex}/dev/sync/ingest/control"
    heard: list[bytes] = []

    def fail_at_first(_: str, payload: bytes) -> None:
        heard.append(payload)
        if len(heard) == 1:
            raise ValueError("a listener's own fault")

    client = new_client(address)
    client.listen(topic, fail_at_first)
    with client:
        for number in range(3):
            client.publish(topic, b"%d" % number).result(10)
        assert eventually(lambda: heard == [b"0", b"1", b"2"])


def test_a_listener_may_publish_although_nothing_more_may_be_in_flight(
    address: BrokerAddress,
) -> None:
    root = uuid4().hex
    device = new_client(address, most_in_flight=1)

    def acknowledge(_: str, payload: bytes) -> None:
        device.publish(f"{root}/{ACK}", payload)

    device.listen(f"{root}/{CONTROL}", acknowledge)
    with (
        hearing(new_client(address), f"{root}/{ACK}") as acks,
        device,
        new_client(address) as platform,
    ):
        for number in range(100):
            platform.publish(f"{root}/{CONTROL}", b"%d" % number)
        for _ in range(20):
            device.publish(f"{root}/other", b"").result(30)
        assert eventually(lambda: len(acks) == 100)


def test_a_persistent_client_hears_what_was_sent_while_it_was_away(address: BrokerAddress) -> None:
    topic = f"{uuid4().hex}/dev/sync/ingest/control"
    client_id = f"test-{uuid4().hex[:8]}"
    with hearing(MqttClient(address, client_id, persistent=True), topic) as heard:
        with new_client(address) as sender:
            sender.publish(topic, b"here").result(10)
        assert eventually(lambda: heard == [b"here"])
    with new_client(address) as sender:
        sender.publish(topic, b"away").result(10)
    with hearing(MqttClient(address, client_id, persistent=True), topic) as heard:
        assert eventually(lambda: heard == [b"away"])


def test_what_a_listener_hears_while_its_client_is_stopped_is_not_heard_again(
    address: BrokerAddress,
) -> None:
    topic = f"{uuid4().hex}/dev/sync/ingest/control"
    client_id = f"test-{uuid4().hex[:8]}"
    hears, hears_out = Event(), Event()

    def listen(_: str, __: bytes) -> None:
        hears.set()
        hears_out.wait(60)

    client = MqttClient(address, client_id, persistent=True)
    client.listen(topic, listen)
    with client, new_client(address) as sender:
        for payload in (b"heard", b"kept"):
            sender.publish(topic, payload).result(10)
        assert hears.wait(60)
        stopping = Thread(target=client.stop)
        stopping.start()
        hears_out.set()
        stopping.join()
    with hearing(MqttClient(address, client_id, persistent=True), topic) as heard:
        with new_client(address) as sender:
            sender.publish(topic, b"last").result(10)
        assert eventually(lambda: heard[-1:] == [b"last"])
    assert b"heard" not in heard


def test_a_topic_that_is_none_is_refused_and_leaves_room_for_others(
    address: BrokerAddress,
) -> None:
    with new_client(address, most_in_flight=1) as client:
        for _ in range(3):
            with pytest.raises(ValueError, match="wildcards"):
                client.publish("a/#", b"")
        client.publish("a/b", b"").result(10)


def test_a_broker_that_is_not_there_gets_a_sentence() -> None:
    client = MqttClient(BrokerAddress("127.0.0.1", free_port()), "test")
    client.start()
    with pytest.raises(BrokerUnavailable, match=r"The broker 127\.0\.0\.1:\d+ is not there"):
        client.wait_until_connected(1)
    client.stop()
