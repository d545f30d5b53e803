import os
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from ilyama_protocol.intake.outcomes import Message
from ilyama_resources.embedded.ports import free_port
from ilyama_resources.faults import CRASH_STATUS
from ilyama_resources.landing.directory import Landing
from ilyama_resources.landing.segment_files import Segment
from ilyama_resources.mqtt.connection import NEVER_EXPIRES, Connection
from ilyama_resources.mqtt.errors import BrokerUnavailable, LandingBusy
from ilyama_resources.mqtt.subscriber import MqttSubscriber
from ilyama_resources.postgres import Gateway
from ilyama_resources.settings import Settings
from tests.databases import fresh_database
from tests.stack.mqtt_parties import (
    TOPIC,
    Device,
    bare_client,
    device,
    land_everything,
    land_the_rest,
    landed,
    lander,
    numbers,
    start,
)
from tests.waiting import eventually

CRASH_POINTS = ("segment_rename.before", "segment_rename.after", "ack.before", "ack.after")


@pytest.fixture
def settings(tmp_path: Path, broker_url: str) -> Settings:
    client_id = f"lander-{uuid4().hex[:8]}"
    return Settings(home=tmp_path / "home", broker_url=broker_url, ingest_client_id=client_id)


@pytest.fixture
def subscriber(settings: Settings, broker_url: str) -> MqttSubscriber:
    subscriber = MqttSubscriber(settings, broker_url, None)
    subscriber.subscribe_only()
    return subscriber


@pytest.fixture
def sender(settings: Settings, broker_url: str) -> Iterator[Device]:
    with device(broker_url, settings) as sender:
        yield sender


@pytest.fixture
def gateway(postgres_url: str) -> Iterator[Gateway]:
    gateway = Gateway(fresh_database(postgres_url))
    yield gateway
    gateway.close()


def known_messages(gateway: Gateway) -> int:
    with gateway.transaction() as tx:
        return sum(day.messages for day in tx.segments.pending())


def test_tick_by_tick_every_message_lands_once(
    subscriber: MqttSubscriber, settings: Settings, sender: Device
) -> None:
    for tick in range(1, 4):
        sender.send(50)
        sender.wait_for_acks()
        with subscriber.session() as session:
            assert land_everything(session, expected=50) == 50
        assert numbers(landed(settings)) == dict.fromkeys(range(50 * tick), 1)
    assert land_the_rest(subscriber) == 0


def test_what_is_sent_one_by_one_lands_in_its_order_with_the_time_it_came(
    subscriber: MqttSubscriber, settings: Settings, sender: Device
) -> None:
    before = time.time_ns() // 1000
    for _ in range(3):
        for _ in range(20):
            sender.send(1)
            sender.wait_for_acks()
        with subscriber.session() as session:
            land_everything(session, expected=20)
    messages = list(landed(settings))
    moments = [message.landed_at for message in messages]
    assert [int(message.payload[:8]) for message in messages] == list(range(60))
    assert before <= moments[0]
    assert moments == sorted(moments)
    assert moments[-1] <= time.time_ns() // 1000


def test_a_tick_ends_when_enough_has_landed_and_reports_it(
    subscriber: MqttSubscriber, sender: Device
) -> None:
    sender.send(10, size=100)
    with subscriber.session() as session:
        report = session.land_for(60, lambda report: report.segments > 0)
    assert (report.messages, report.bytes, report.connects) == (10, 1000, 1)
    assert len(report.days) == 1
    assert report.trouble is None


def test_a_session_that_exists_is_not_subscribed_again(
    subscriber: MqttSubscriber, settings: Settings, broker_url: str
) -> None:
    note = settings.landing / f"{settings.ingest_client_id}.subscriptions"
    written_at = note.stat().st_mtime_ns
    subscriber.subscribe_only()
    assert note.stat().st_mtime_ns == written_at
    renamed = settings.model_copy(update={"ingest_client_id": f"other-{uuid4().hex[:8]}"})
    MqttSubscriber(renamed, broker_url, None).subscribe_only()
    assert (settings.landing / f"{renamed.ingest_client_id}.subscriptions").exists()
    assert note.stat().st_mtime_ns == written_at


@pytest.mark.usefixtures("subscriber")
def test_what_waits_in_a_subscription_that_is_no_longer_wanted_lands(
    settings: Settings, broker_url: str, sender: Device
) -> None:
    sender.send(10)
    sender.wait_for_acks()
    shared = settings.model_copy(update={"ingest_shared": True})
    sharing = MqttSubscriber(shared, broker_url, None)
    with sharing.session() as session:
        assert land_everything(session, expected=10) == 10
    assert numbers(landed(settings)) == dict.fromkeys(range(10), 1)
    forget_session(broker_url, settings)


def forget_session(broker_url: str, settings: Settings) -> None:
    """Let the broker forget the session of a lander, and what waits in it."""
    client = bare_client(broker_url, client_id=settings.ingest_client_id)
    start(client, broker_url, clean_start=True)
    assert eventually(client.is_connected)
    client.disconnect()
    client.loop_stop()


def _die(*_: object) -> None:
    raise BrokerUnavailable("died")


def test_a_note_about_a_session_that_the_broker_has_lost_is_not_believed(
    settings: Settings, broker_url: str, sender: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even when the first to see it dies before it has subscribed again."""
    subscriber = MqttSubscriber(settings, broker_url, None)
    subscriber.subscribe_only()
    forget_session(broker_url, settings)
    with monkeypatch.context() as patched:
        patched.setattr(Connection, "subscribe", _die)
        with pytest.raises(BrokerUnavailable):
            subscriber.subscribe_only()
    subscriber.subscribe_only()
    sender.send(5)
    sender.wait_for_acks()
    with subscriber.session() as session:
        assert land_everything(session, expected=5) == 5


@pytest.mark.parametrize("text", ["\ufeff", "a\ufeffb\U0001f600", ""])
def test_any_text_in_a_property_lands_and_what_comes_after_it_too(
    subscriber: MqttSubscriber, settings: Settings, sender: Device, text: str
) -> None:
    ticket = sender.client.publish(TOPIC, b"odd", properties={"note": text, text or "k": "v"})
    ticket.result(60)
    sender.send(3)
    sender.wait_for_acks()
    with subscriber.session() as session:
        assert land_everything(session, expected=4) == 4
    (odd,) = [message for message in landed(settings) if message.payload == b"odd"]
    assert odd.user_properties == {"note": text, text or "k": "v"}


def test_ingest_processes_share_the_messages(settings: Settings, broker_url: str) -> None:
    halves = [
        settings.model_copy(update={"ingest_shared": True, "ingest_client_id": uuid4().hex[:8]})
        for _ in range(2)
    ]
    for half in halves:
        MqttSubscriber(half, broker_url, None).subscribe_only()
    with lander(halves[0]), lander(halves[1]), device(broker_url, settings) as sender:
        sender.send(500)
        sender.wait_for_acks()
        assert eventually(lambda: sum(numbers(landed(settings)).values()) >= 500)
    assert numbers(landed(settings)) == dict.fromkeys(range(500), 1)


def test_a_second_holder_is_refused(subscriber: MqttSubscriber) -> None:
    with subscriber.session(), pytest.raises(LandingBusy, match="Another process lands"):
        subscriber.session().__enter__()
    with subscriber.session() as session:
        session.connect()


def test_a_broker_that_is_not_there_is_an_error_of_the_tick(tmp_path: Path) -> None:
    port = free_port()
    subscriber = MqttSubscriber(Settings(home=tmp_path), f"mqtt://u:p@127.0.0.1:{port}", None)
    with subscriber.session() as session, pytest.raises(BrokerUnavailable, match="is not there"):
        session.land_for(5)


def test_a_broker_that_is_not_there_is_waited_for_by_the_process(tmp_path: Path) -> None:
    port = free_port()
    subscriber = MqttSubscriber(Settings(home=tmp_path), f"mqtt://u:p@127.0.0.1:{port}", None)
    with subscriber.session() as session:
        report = session.land_until(lambda: session.report.trouble is not None)
    assert "is not there" in (report.trouble or "")


@pytest.mark.usefixtures("subscriber")
def test_landed_segments_are_known_to_postgres(
    settings: Settings,
    broker_url: str,
    sender: Device,
    gateway: Gateway,
) -> None:
    sender.send(30)
    with MqttSubscriber(settings, broker_url, gateway).session() as session:
        land_everything(session, expected=30)
        assert session.report.unregistered == 0
    assert known_messages(gateway) == 30


def test_while_postgres_is_gone_the_file_alone_is_enough(
    subscriber: MqttSubscriber,
    settings: Settings,
    broker_url: str,
    sender: Device,
    gateway: Gateway,
) -> None:
    gone = Gateway(f"postgresql+psycopg2://u:p@127.0.0.1:{free_port()}/x")
    sender.send(30)
    with MqttSubscriber(settings, broker_url, gone).session() as session:
        land_everything(session, expected=30)
        assert session.report.unregistered == session.report.segments > 0
    assert land_the_rest(subscriber) == 0
    assert known_messages(gateway) == 0
    Landing(settings.landing).register_found(gateway)
    assert known_messages(gateway) == 30


@contextmanager
def small_disk(directory: Path, *, mebibytes: int) -> Iterator[None]:
    directory.mkdir(parents=True, exist_ok=True)
    size = f"size={mebibytes}m"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(directory)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip("this user cannot mount a small disk")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


def test_on_a_full_disk_nothing_is_acknowledged_and_landing_resumes_by_itself(
    subscriber: MqttSubscriber, settings: Settings, sender: Device
) -> None:
    with small_disk(settings.landing, mebibytes=2):
        filler = settings.landing / "filler"
        filler.write_bytes(os.urandom(2 * 1024 * 1024 - 64 * 1024))
        for _ in range(20):
            sender.client.publish("a/b/sync/rows/batch", os.urandom(50_000)).result(30)
        with subscriber.session() as session:
            full = session.land_for(30, lambda report: report.disk_trouble is not None)
            assert "No space left on device" in (full.disk_trouble or "")
            assert (full.messages, list(landed(settings))) == (0, [])
            assert list(settings.landing.rglob("*.landing")) == []
            filler.unlink()
            assert land_everything(session, expected=20) == 20
            assert session.report.trouble is None
        assert len(list(landed(settings))) == 20


def test_a_write_that_fails_is_tried_again_with_everything_that_came(
    subscriber: MqttSubscriber,
    settings: Settings,
    sender: Device,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attempts: list[int] = []
    fsync = os.fsync

    def failing_twice(descriptor: int) -> None:
        attempts.append(descriptor)
        if len(attempts) <= 2:
            raise OSError(5, "Input/output error")
        fsync(descriptor)

    monkeypatch.setattr("ilyama_resources.landing.segment_files.os.fsync", failing_twice)
    sender.send(100)
    sender.wait_for_acks()
    with subscriber.session() as session:
        assert land_everything(session, expected=100) == 100
        assert session.report.connects >= 3
    assert numbers(landed(settings)) == dict.fromkeys(range(100), 1)


def test_nothing_is_acknowledged_on_a_newer_connection_than_delivered_it(
    subscriber: MqttSubscriber,
    settings: Settings,
    broker_url: str,
    sender: Device,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writing, go_on = threading.Event(), threading.Event()
    write = Landing.write

    def slow_write(self: Landing, segment_id: str, messages: Sequence[Message]) -> Segment:
        writing.set()
        go_on.wait(30)
        return write(self, segment_id, messages)

    monkeypatch.setattr(Landing, "write", slow_write)
    sender.send(100)
    sender.wait_for_acks()
    with subscriber.session() as session:
        thief = threading.Thread(
            target=_steal_the_session, args=(broker_url, settings, writing, go_on)
        )
        thief.start()
        assert land_everything(session, expected=200) == 200
        assert session.report.connects >= 2
        thief.join()
    assert numbers(landed(settings)) == dict.fromkeys(range(100), 2)
    assert land_the_rest(subscriber) == 0


def _steal_the_session(
    broker_url: str, settings: Settings, writing: threading.Event, go_on: threading.Event
) -> None:
    """While a batch is being written, take its connection away."""
    writing.wait(30)
    thief = bare_client(broker_url, client_id=settings.ingest_client_id)
    thief.manual_ack_set(True)
    connected = threading.Event()
    thief.on_connect = lambda *_: connected.set()
    properties = Properties(PacketTypes.CONNECT)
    properties.SessionExpiryInterval = NEVER_EXPIRES
    start(thief, broker_url, clean_start=False, properties=properties)
    connected.wait(30)
    thief.disconnect()
    thief.loop_stop()
    go_on.set()


def test_what_was_acknowledged_outlives_landers_killed_under_load(
    subscriber: MqttSubscriber, settings: Settings, sender: Device
) -> None:
    for kill in (1, 2, 3):
        with lander(settings) as process:
            sender.send(1000)
            assert eventually(lambda: process.poll() is not None or len(list(landed(settings))) > 0)
            process.kill()
            process.wait()
        assert sender.next_number == 1000 * kill
    sender.wait_for_acks()
    land_the_rest(subscriber)
    assert set(numbers(landed(settings))) == set(range(3000))


@pytest.mark.parametrize("point", CRASH_POINTS)
def test_a_lander_that_dies_at_a_crash_point_loses_nothing(
    subscriber: MqttSubscriber, settings: Settings, sender: Device, point: str
) -> None:
    sender.send(100)
    sender.wait_for_acks()
    with lander(settings, CRASH_AT=point) as process:
        assert process.wait(30) == CRASH_STATUS
    came_again = land_the_rest(subscriber)
    assert set(numbers(landed(settings))) == set(range(100))
    # Of acknowledgements that were just sent, some may die with their sender.
    assert came_again == 100 or point == "ack.after"


def test_its_memory_is_bounded_and_its_fullness_visible(
    settings: Settings, broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = settings.model_copy(update={"segment_max_bytes": 100_000, "landing_wait_ms": 50})
    subscriber = MqttSubscriber(small, broker_url, None)
    subscriber.subscribe_only()
    go_on = threading.Event()
    write = Landing.write
    sizes: list[int] = []

    def slow_write(self: Landing, segment_id: str, messages: Sequence[Message]) -> Segment:
        go_on.wait(30)
        sizes.append(sum(len(message.payload) for message in messages))
        return write(self, segment_id, messages)

    monkeypatch.setattr(Landing, "write", slow_write)
    with device(broker_url, settings) as sender, subscriber.session() as session:
        sender.send(100, size=10_000)
        sender.wait_for_acks()
        assert session.fullness == 0
        session.land_for(20, lambda _: session.fullness == 1 and _release(go_on))
        assert land_everything(session, expected=100 - session.report.messages) > 0
    assert max(sizes) <= 110_000
    assert numbers(landed(settings)) == dict.fromkeys(range(100), 1)


def _release(event: threading.Event) -> bool:
    event.set()
    return True
