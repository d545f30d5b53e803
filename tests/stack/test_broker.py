import os
import signal
import stat
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from ilyama_resources.embedded.broker_server import EmbeddedBroker, broker_in_use
from ilyama_resources.embedded.ports import LOOPBACK, free_port
from ilyama_resources.embedded.server import EmbeddedServerError
from ilyama_resources.mqtt.address import BrokerAddress
from ilyama_resources.mqtt.client import MqttClient
from ilyama_resources.mqtt.errors import BrokerRefused, PublishRefused
from ilyama_resources.mqtt.subscriber import MqttSubscriber
from ilyama_resources.settings import Settings
from tests.stack.mqtt_parties import (
    TOPIC,
    bare_client,
    device,
    land_everything,
    landed,
    numbers,
    start,
)
from tests.stack.server_users import is_alive
from tests.waiting import eventually


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    server = EmbeddedBroker(Settings(home=tmp_path / "home", broker_port=free_port()))
    yield server
    assert eventually(lambda: server.endpoint() is None)


@pytest.fixture
def home(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "lander", ingest_client_id=tmp_path.name[-40:])


def pid_of(server: EmbeddedBroker) -> int:
    endpoint = server.endpoint()
    assert endpoint is not None
    return endpoint.pid


def test_a_configured_broker_is_used_as_it_is(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", broker_url="mqtts://u:p@broker:8883")
    with broker_in_use(settings) as url:
        assert url == "mqtts://u:p@broker:8883"
    assert not settings.home.exists()


def test_it_listens_on_the_loopback_address_where_it_was_told(
    broker_url: str, platform_settings: Settings
) -> None:
    assert broker_url.endswith(f"@{LOOPBACK}:{platform_settings.broker_port}")
    listening = psutil.Process(pid_of(EmbeddedBroker(platform_settings))).net_connections()
    addresses = {entry.laddr.ip for entry in listening if entry.status == psutil.CONN_LISTEN}
    assert {address.removeprefix("::ffff:") for address in addresses} == {LOOPBACK}


def test_state_and_password_are_private(broker_url: str, platform_settings: Settings) -> None:
    assert broker_url
    directory = platform_settings.broker_dir
    inside = [directory, *directory.rglob("*")]
    open_to_others = [path for path in inside if stat.S_IMODE(path.stat().st_mode) & 0o077]
    assert open_to_others == []


def test_the_password_is_not_on_the_command_line(
    broker_url: str, platform_settings: Settings
) -> None:
    password = broker_url.partition("@")[0].rpartition(":")[2]
    command = psutil.Process(pid_of(EmbeddedBroker(platform_settings))).cmdline()
    assert password not in " ".join(command)


def test_a_port_in_use_is_named_with_its_setting(tmp_path: Path, broker_url: str) -> None:
    port = int(broker_url.rpartition(":")[2])
    second = EmbeddedBroker(Settings(home=tmp_path / "other", broker_port=port))
    sentence = rf"Port {port} is in use: set ILYAMA_BROKER_PORT to a free one\."
    with pytest.raises(EmbeddedServerError, match=sentence):
        second.in_use().__enter__()


def test_what_comes_before_the_platform_first_listens_is_kept(server: EmbeddedBroker) -> None:
    with server.in_use() as url:
        address = BrokerAddress.of(url, server.settings)
        with MqttClient(address, "eager-device") as eager:
            eager.publish("acme/eager/sync/rows/batch", b"{}").result(timeout=20)
        with MqttSubscriber(server.settings, url, None).session() as session:
            report = session.land_for(20, lambda report: report.messages > 0)
        assert report.messages == 1


def test_nobody_enters_without_the_password(broker_url: str, platform_settings: Settings) -> None:
    address = BrokerAddress.of(broker_url.replace("@", "x@"), platform_settings)
    client = MqttClient(address, "guest")
    client.start()
    try:
        with pytest.raises(BrokerRefused, match=r"refuses: (Not authorized|Bad user name)"):
            client.wait_until_connected(5)
    finally:
        client.stop()


@pytest.mark.parametrize(
    "topic",
    [
        "acme/dev-7/sync/rows/batch",
        "/dev-7/sync/rows/batch",
        "a.b/c.d/sync/rows/batch",
        "a/b.c.d/sync/rows/batch",
        "größe/日本💧/sync/rows/batch",
        "a*b/c>d/sync/rows/batch",
        "a b/c|d/sync/telemetry/batch",
        "a:b/${c}/sync/schema/observe",
        "a/b/sync/ingest/ack",
        "a/b/sync/ingest/request",
        "devices/x.y/telemetry",
        "devices/x/config/status/firmware",
    ],
)
def test_a_message_arrives_as_it_was_sent(broker_url: str, home: Settings, topic: str) -> None:
    subscriber = MqttSubscriber(home, broker_url, None)
    subscriber.subscribe_only()
    with device(broker_url, home) as sender:
        payload = "{} \N{DROPLET}".encode() + bytes(range(256))
        sender.client.publish(topic, payload, {"firmware_version": "1.2.3"}).result(10)
    with subscriber.session() as session:
        land_everything(session, expected=1)
    (message,) = landed(home)
    assert (message.topic, message.payload) == (topic, payload)
    assert message.user_properties == {"firmware_version": "1.2.3"}


def test_the_platforms_own_controls_are_not_landed(broker_url: str, home: Settings) -> None:
    subscriber = MqttSubscriber(home, broker_url, None)
    subscriber.subscribe_only()
    with device(broker_url, home) as sender:
        sender.client.publish("acme/dev-7/sync/ingest/control", b"{}").result(10)
        sender.client.publish("devices/dev-7/config/network", b"{}").result(10)
        sender.client.publish(TOPIC, b"{}").result(10)
    with subscriber.session() as session:
        land_everything(session, expected=1)
    assert [message.topic for message in landed(home)] == [TOPIC]


def test_what_a_client_has_in_flight_keeps_its_order(broker_url: str, home: Settings) -> None:
    with (
        MqttSubscriber(home, broker_url, None).session() as session,
        device(broker_url, home) as sender,
    ):
        session.connect()
        publishing = threading.Thread(target=sender.send, args=(10_000,))
        publishing.start()
        land_everything(session, expected=10_000)
        publishing.join()
    assert [int(message.payload[:8]) for message in landed(home)] == [*range(10_000)]


@pytest.mark.parametrize(
    ("topic", "retain"),
    [(TOPIC, True), ("a::b/dev/sync/rows/batch", False)],
    ids=["retained", "::"],
)
def test_what_no_device_may_publish_ends_its_connection(
    broker_url: str, topic: str, retain: bool
) -> None:
    client = bare_client(broker_url)
    ended, acknowledged = threading.Event(), threading.Event()
    client.on_disconnect = lambda *_: ended.set()
    client.on_publish = lambda *_: acknowledged.set()
    start(client, broker_url)
    try:
        client.publish(topic, b"{}", qos=1, retain=retain)
        assert ended.wait(10)
        assert not acknowledged.is_set()
    finally:
        client.loop_stop()


def test_a_retained_will_is_refused(broker_url: str) -> None:
    client = bare_client(broker_url)
    client.will_set(TOPIC, b"{}", qos=1, retain=True)
    ended, connected = threading.Event(), threading.Event()
    client.on_disconnect = lambda *_: ended.set()
    client.on_connect = lambda *_: connected.set()
    start(client, broker_url)
    try:
        assert ended.wait(10)
        assert not connected.is_set()
    finally:
        client.loop_stop()


def test_a_message_does_not_expire(broker_url: str, home: Settings) -> None:
    subscriber = MqttSubscriber(home, broker_url, None)
    subscriber.subscribe_only()
    client = bare_client(broker_url)
    start(client, broker_url)
    properties = Properties(PacketTypes.PUBLISH)
    properties.MessageExpiryInterval = 1
    client.publish(TOPIC, b"00000001", qos=1, properties=properties).wait_for_publish(10)
    over_at = time.monotonic() + 1.5
    client.disconnect()
    client.loop_stop()
    assert eventually(lambda: time.monotonic() > over_at)
    with subscriber.session() as session:
        assert land_everything(session, expected=1, within_s=5) == 1


def test_a_message_beyond_the_brokers_limit_is_refused_before_it_is_sent(
    broker_url: str, home: Settings
) -> None:
    with device(broker_url, home) as sender:
        with pytest.raises(PublishRefused, match="more than the broker takes"):
            sender.client.publish(TOPIC, b"." * 2 * 1024 * 1024)
        sender.client.publish(TOPIC, b"." * 1024 * 1024).result(10)


def test_a_full_disk_stops_publishers_and_is_visible(tmp_path: Path) -> None:
    settings = Settings(
        home=tmp_path / "home", broker_port=free_port(), broker_min_disk_free=10**15
    )
    broker = EmbeddedBroker(settings)
    with broker.in_use() as url:
        assert not broker.has_room()
        assert eventually(
            lambda: "below the configured <min-disk-free>" in broker.log_file.read_text()
        )
        with device(url, settings) as sender:
            sender.send(1)
            with pytest.raises(TimeoutError):
                sender.tickets[0].result(2)


def test_the_last_user_to_leave_stops_it_cleanly_and_messages_stay(
    server: EmbeddedBroker, home: Settings
) -> None:
    with server.in_use() as url:
        subscriber = MqttSubscriber(home, url, None)
        subscriber.subscribe_only()
        with device(url, home) as sender:
            sender.send(20)
            sender.wait_for_acks()
        pid = pid_of(server)
    assert eventually(lambda: not is_alive(pid))
    with server.in_use() as again:
        assert again == url
        with subscriber.session() as session:
            assert land_everything(session, expected=20) == 20


@pytest.fixture
def _deaf_to_signals() -> Iterator[None]:
    numbers = (signal.SIGHUP, signal.SIGTERM)
    before = [signal.signal(number, signal.SIG_IGN) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.usefixtures("_deaf_to_signals")
def test_it_can_be_stopped_though_whoever_starts_it_ignores_signals(server: EmbeddedBroker) -> None:
    with server.in_use():
        pid = pid_of(server)
    assert eventually(lambda: not is_alive(pid), within_s=server.stop_within_s - 10)


def test_what_was_acknowledged_survives_kills_of_the_broker(
    server: EmbeddedBroker, home: Settings
) -> None:
    with server.in_use() as url:
        subscriber = MqttSubscriber(home, url, None)
        subscriber.subscribe_only()
        with device(url, home) as sender:
            for kill in (1, 2):
                publishing = threading.Thread(target=sender.send, args=(1500,))
                publishing.start()
                assert eventually(partial(sender.has_acknowledged, 1500 * kill - 1000))
                os.kill(pid_of(server), signal.SIGKILL)
                assert eventually(lambda: server.endpoint() is None)
                assert server.ensure_running() == url
                publishing.join()
            sender.wait_for_acks()
            assert sender.client.counters.lost_connections >= 2
            assert sender.client.counters.published_again > 0
        with subscriber.session() as session:
            land_everything(session, expected=3000)
        assert set(numbers(landed(home))) == sender.acknowledged == set(range(3000))
