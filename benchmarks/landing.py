"""Ratio 7: landing with acknowledgement after the disk, against taking what comes.

Both clients hold a persistent session with the same subscriptions, so the broker keeps one copy of
every message for each. A round publishes first; then each client in turn connects and is timed
until it has everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from paho.mqtt.client import Client, MQTTMessage, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from benchmarks.measuring import Figure, Measured, Work, interleaved
from benchmarks.workbench import Workbench
from benchmarks.workloads import Fleet
from ilyama_protocol.topics import INBOUND_FILTERS
from ilyama_resources.landing.segment_files import read_messages
from ilyama_resources.mqtt.address import BrokerAddress
from ilyama_resources.mqtt.client import MqttClient
from ilyama_resources.mqtt.connection import KEEPALIVE_S, NEVER_EXPIRES
from ilyama_resources.mqtt.subscriber import RECEIVE_MAXIMUM, MqttSubscriber
from ilyama_resources.settings import Settings
from tests.oracle import Event
from tests.platform import NO_SPARK, Platform

ROWS = 64
"""A message of so many rows has about 8 kB."""

WITHIN_S = 120.0
_LOOK_EVERY_S = 0.1


def measure(bench: Workbench) -> Measured:
    """Let both clients take the same messages; of two rates, the faster one's seconds above."""
    with bench.platform(spark_remote=NO_SPARK) as platform, _contest(bench, platform) as contest:
        contest.prove()
        measured = interleaved(
            contest.auto_acknowledging, contest.landing, rounds=bench.scale.landing_rounds
        )
    megabytes = contest.published_bytes / 1e6
    return measured.with_figures(
        Figure("a round", megabytes, "MB"),
        Figure("landed durably", megabytes / measured.denominator_s, "MB/s"),
        Figure("taken without a disk", megabytes / measured.numerator_s, "MB/s"),
    )


@contextmanager
def _contest(bench: Workbench, platform: Platform) -> Iterator[_Contest]:
    settings = platform.settings.model_copy(update={"broker_url": bench.broker_url})
    taker = AutoAcknowledgingClient(settings, bench.broker_url)
    subscriber = MqttSubscriber(settings, bench.broker_url, platform.gateway)
    subscriber.subscribe_only()
    taker.take(0)
    address = BrokerAddress.of(bench.broker_url, settings)
    with MqttClient(address, "bench-device") as device:
        device.wait_until_connected()
        yield _Contest(subscriber, taker, device, settings, bench.scale.landed_messages)


class AutoAcknowledgingClient:
    """The same library with its usual acknowledgement, and nothing written anywhere."""

    def __init__(self, settings: Settings, url: str) -> None:
        self.received = self.received_bytes = 0
        self._settings = settings
        self._where = urlsplit(url)

    def take(self, messages: int) -> None:
        """Connect, take so many messages, and leave; the session stays."""
        self.received = self.received_bytes = 0
        client = self._client()
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = NEVER_EXPIRES
        properties.ReceiveMaximum = RECEIVE_MAXIMUM
        host, port = self._where.hostname or "", self._where.port or 0
        client.connect(host, port, KEEPALIVE_S, clean_start=False, properties=properties)
        while not self._is_subscribed or self.received < messages:
            client.loop(_LOOK_EVERY_S)
        client.disconnect()
        while client.want_write():
            client.loop_write()

    def _client(self) -> Client:
        client = Client(CallbackAPIVersion.VERSION2, client_id="bench-taker", protocol=MQTTv5)
        client.username_pw_set(self._where.username, self._where.password)
        self._is_subscribed = False
        client.on_connect = self._connected
        client.on_subscribe = self._subscribed
        client.on_message = self._took
        return client

    def _connected(self, client: Client, *told: object) -> None:
        if getattr(told[1], "session_present", False):
            self._is_subscribed = True
            return
        client.subscribe([(topic, SubscribeOptions(qos=1)) for topic in INBOUND_FILTERS])

    def _subscribed(self, *_: object) -> None:
        self._is_subscribed = True

    def _took(self, _: Client, __: object, message: MQTTMessage) -> None:
        self.received += 1
        self.received_bytes += len(message.payload)


@dataclass
class _Contest:
    subscriber: MqttSubscriber
    taker: AutoAcknowledgingClient
    device: MqttClient
    settings: Settings
    messages: int
    published_round: int = -1
    published_bytes: int = 0

    def __post_init__(self) -> None:
        self._events = Fleet(7, devices=self.messages).batches(self.messages, rows=ROWS)

    def auto_acknowledging(self, number: int) -> Work:
        """The client without a disk, with everything of a round waiting for it."""
        self._publish(number)
        return lambda: self.taker.take(self.messages)

    def landing(self, number: int) -> Work:
        """The platform's own, with everything of a round waiting for it."""
        self._publish(number)
        return self._land

    def prove(self) -> None:
        """Compare what either takes with what was published."""
        self._publish(-2)
        self.taker.take(self.messages)
        self._land()
        assert self.taker.received_bytes == self.published_bytes
        found = sorted((message.topic, message.payload) for message in self._landed())
        assert found == sorted((event.topic, event.payload) for event in self._events)

    def _publish(self, number: int) -> None:
        if number == self.published_round:
            return
        tickets = [self.device.publish(e.topic, e.payload) for e in self._events]
        for ticket in tickets:
            ticket.result(WITHIN_S)
        self.published_round = number
        self.published_bytes = sum(len(event.payload) for event in self._events)

    def _land(self) -> None:
        with self.subscriber.session() as session:
            report = session.land_for(WITHIN_S, lambda told: told.messages >= self.messages)
        assert report.messages == self.messages, report
        assert report.unregistered == 0, report

    def _landed(self) -> Iterator[Event]:
        for path in sorted((self.settings.landing / "segments").glob("*/*.parquet")):
            for message in read_messages(path):
                yield Event(message.topic, message.payload, message.landed_at)
