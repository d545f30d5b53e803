"""Devices that publish, and landers that live in processes of their own and can be killed."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from paho.mqtt.client import Client, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion

from ilyama_protocol.intake.outcomes import Message
from ilyama_resources.embedded.server import python_path
from ilyama_resources.landing.segment_files import read_messages
from ilyama_resources.mqtt.address import BrokerAddress
from ilyama_resources.mqtt.client import MqttClient
from ilyama_resources.mqtt.session import LandingSession
from ilyama_resources.mqtt.subscriber import MqttSubscriber
from ilyama_resources.settings import Settings

TOPIC = "acme/dev-7/sync/rows/batch"

_LANDER = """
import sys
from ilyama_resources.mqtt.subscriber import MqttSubscriber
from ilyama_resources.settings import load_settings
settings = load_settings()
with MqttSubscriber(settings, settings.broker_url, None).session() as session:
    session.connect()
    sys.stdout.write("connected\\n")
    sys.stdout.flush()
    session.land_until(lambda: False)
"""


@dataclass
class Device:
    """Publishes numbered messages and remembers which the broker has acknowledged."""

    client: MqttClient
    next_number: int = 0
    tickets: dict[int, Future[None]] = field(default_factory=dict)

    def send(self, messages: int, *, size: int = 200, topic: str = TOPIC) -> None:
        for _ in range(messages):
            payload = b"%08d" % self.next_number + b"." * (size - 8)
            self.tickets[self.next_number] = self.client.publish(topic, payload)
            self.next_number += 1

    def wait_for_acks(self) -> None:
        for ticket in self.tickets.values():
            ticket.result(60)

    @property
    def acknowledged(self) -> set[int]:
        return {
            number
            for number, ticket in list(self.tickets.items())
            if ticket.done() and not ticket.cancelled() and ticket.exception() is None
        }

    def has_acknowledged(self, messages: int) -> bool:
        return len(self.acknowledged) >= messages


@contextmanager
def device(url: str, settings: Settings) -> Iterator[Device]:
    with MqttClient(BrokerAddress.of(url, settings), f"device-{uuid4().hex[:8]}") as client:
        yield Device(client)


def bare_client(url: str, *, client_id: str | None = None) -> Client:
    """paho itself, for what our own client does not do."""
    parts = urlsplit(url)
    name = client_id or f"bare-{uuid4().hex[:8]}"
    client = Client(CallbackAPIVersion.VERSION2, client_id=name, protocol=MQTTv5)
    client.username_pw_set(parts.username, parts.password)
    return client


def start(client: Client, url: str, **options: Any) -> None:
    parts = urlsplit(url)
    client.connect(parts.hostname or "", parts.port or 0, **options)
    client.loop_start()


def land_everything(session: LandingSession, *, expected: int, within_s: float = 60) -> int:
    """Land until so many messages have come; return how many did."""
    return session.land_for(within_s, lambda report: report.messages >= expected).messages


def land_the_rest(subscriber: MqttSubscriber) -> int:
    """Land whatever the broker still has for the session; return how many messages that was."""
    total = 0
    with subscriber.session() as session:
        while came := session.land_for(1).messages:
            total += came
    return total


def landed(settings: Settings) -> Iterator[Message]:
    """Every message that has landed, in the order of its segment."""
    for path in sorted((settings.landing / "segments").glob("*/*.parquet")):
        yield from read_messages(path)


def numbers(messages: Iterable[Message]) -> Counter[int]:
    """How often each of a device's numbered messages has landed."""
    return Counter(int(message.payload[:8]) for message in messages)


@contextmanager
def lander(settings: Settings, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """A process that lands what comes until it is killed."""
    with subprocess.Popen(
        [sys.executable, "-c", _LANDER],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **python_path(), **settings.environment(), **variables},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "connected\n"
        try:
            yield process
        finally:
            process.kill()
