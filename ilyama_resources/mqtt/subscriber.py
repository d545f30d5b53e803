"""The platform's subscriber: what devices send is on disk before the broker may forget it.

One thread, the caller's, talks to the broker; another writes. While a batch is being written the
next is collected, and while both are full nothing is read: the broker keeps what it has. Every
batch knows the connection that delivered it and is acknowledged there, or not at all.
"""

from __future__ import annotations

import logging
import select
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Final, NamedTuple

from paho.mqtt.client import MQTTMessage
from pyarrow import ArrowException

from ilyama_protocol.intake.outcomes import Message
from ilyama_protocol.topics import INBOUND_FILTERS
from ilyama_resources.faults import crash_point
from ilyama_resources.landing import Landing
from ilyama_resources.mqtt.address import BrokerAddress
from ilyama_resources.mqtt.backoff import Backoff
from ilyama_resources.mqtt.batches import Batch, BatchLimits
from ilyama_resources.mqtt.connection import Connection, OnMessage
from ilyama_resources.mqtt.errors import BrokerUnavailable
from ilyama_resources.mqtt.events import log_event
from ilyama_resources.mqtt.holding import RisingIds, SubscriptionNote, sole_holder
from ilyama_resources.mqtt.reports import LandingReport
from ilyama_resources.mqtt.writing import Landed, SegmentWriter
from ilyama_resources.postgres import Gateway
from ilyama_resources.settings import Settings

RECEIVE_MAXIMUM: Final = 4000
"""How many messages the broker sends before it wants some of them acknowledged."""

_SHARED: Final = "$share/ilyama/"
_LONGEST_WAIT_S: Final = 0.5

Until = Callable[[LandingReport], bool]


class _Writing(NamedTuple):
    batch: Batch
    done: Future[Landed]


class MqttSubscriber:
    """Holds the one persistent session in which devices' messages reach the platform."""

    def __init__(self, settings: Settings, broker_url: str, gateway: Gateway | None) -> None:
        self._settings = settings
        self._broker_url = broker_url
        self._gateway = gateway

    def subscribe_only(self) -> None:
        """Create the session and its subscriptions, so that from now on the broker keeps all.

        Raises:
            LandingBusy: another process holds the session, so it exists.
            BrokerUnavailable: there is no broker, or it refuses.
        """
        with self.session() as session:
            session.connect()

    @contextmanager
    def session(self) -> Iterator[LandingSession]:
        """Hold the session; leaving the block disconnects and does not end it.

        Raises:
            LandingBusy: another process holds it.
        """
        directory = self._settings.landing
        with sole_holder(directory / f"{self._holder}.lock"):
            ids = RisingIds(directory / f"{self._holder}.last_id")
            writer = SegmentWriter(Landing(directory), self._gateway, ids)
            session = LandingSession(self._open_connection, writer, self._limits)
            try:
                yield session
            finally:
                session.close()

    @property
    def filters(self) -> list[str]:
        """The topics it subscribes to: those that devices send on, and no other."""
        prefix = _SHARED if self._settings.ingest_shared else ""
        return [prefix + topic for topic in INBOUND_FILTERS]

    @property
    def _holder(self) -> str:
        # Of a shared subscription there may be several holders, each with a name of its own.
        return self._settings.ingest_client_id if self._settings.ingest_shared else "subscriber"

    @property
    def _limits(self) -> BatchLimits:
        return BatchLimits(
            wait_s=self._settings.landing_wait_ms / 1000,
            max_bytes=self._settings.segment_max_bytes,
            # Half of what may be unacknowledged is written while the other half comes in.
            max_messages=RECEIVE_MAXIMUM // 2,
        )

    def _open_connection(self, on_message: OnMessage) -> Connection:
        address = BrokerAddress.of(self._broker_url, self._settings)
        client_id = self._settings.ingest_client_id
        connection = Connection(
            address, client_id, on_message=on_message, receive_maximum=RECEIVE_MAXIMUM
        )
        note = SubscriptionNote(
            self._settings.landing / f"{self._holder}.subscriptions",
            session=f"{client_id} at {address}",
        )
        try:
            connection.open()
            self._subscribe(connection, note)
        except BrokerUnavailable:
            connection.close()
            raise
        return connection

    def _subscribe(self, connection: Connection, note: SubscriptionNote) -> None:
        """Bring the session's subscriptions up to date; usually they are, and nothing is sent."""
        present = note.read() if connection.session_present else []
        if present == self.filters:
            return
        connection.subscribe(self.filters)
        obsolete = [topic for topic in present if topic not in self.filters]
        if obsolete:
            connection.unsubscribe(obsolete)
        note.write(self.filters)


class LandingSession:
    """Lands messages for as long as it is asked to; made by `MqttSubscriber.session`."""

    def __init__(
        self,
        open_connection: Callable[[OnMessage], Connection],
        writer: SegmentWriter,
        limits: BatchLimits,
    ) -> None:
        self.report = LandingReport()
        self._open_connection = open_connection
        self._writer = writer
        self._limits = limits
        self._connection: Connection | None = None
        self._batch: Batch | None = None
        self._writing: _Writing | None = None
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="landing")
        self._waker, self._wakened = socket.socketpair()
        self._wakened.setblocking(False)
        self._connect_backoff = Backoff()
        self._disk_backoff = Backoff()
        self._retry_at = 0.0

    def land_for(self, seconds: float, until: Until = lambda _: False) -> LandingReport:
        """Land what comes until the time is over or `until` says so of the report.

        Raises:
            BrokerUnavailable: there is no broker, or it refuses. One that is lost later is
                waited for.
        """
        self.report = LandingReport()
        self.connect()
        deadline = time.monotonic() + seconds
        while (left_s := deadline - time.monotonic()) > 0 and not until(self.report):
            self._turn(min(left_s, _LONGEST_WAIT_S))
        self._finish()
        return self.report

    def land_until(self, stopped: Callable[[], bool]) -> LandingReport:
        """Land what comes until told to stop; whatever goes wrong meanwhile is waited out."""
        self.report = LandingReport()
        while not stopped():
            self._turn(_LONGEST_WAIT_S)
        self._finish()
        return self.report

    def connect(self) -> None:
        """Resume the session on the broker, unless that is done.

        Raises:
            BrokerUnavailable: there is no broker, or it refuses.
        """
        if self._connection is None or not self._connection.is_open:
            self._drop_collected()
            self._connection = self._open_connection(self._collect)
            self.report.connects += 1
            self.report.broker_trouble = None
            self._connect_backoff.reset()

    @property
    def fullness(self) -> float:
        """How full the memory for messages is: from 0, nothing waits, to 1, reading has stopped."""
        batches = [self._batch, self._writing.batch if self._writing else None]
        shares = [self._share(batch) for batch in batches if batch is not None]
        return min(1.0, sum(shares) / len(batches))

    def close(self) -> None:
        """Disconnect; the session stays on the broker, with everything not acknowledged."""
        self._pool.shutdown(wait=True)
        if self._connection is not None:
            self._connection.close()
        self._waker.close()
        self._wakened.close()

    def _share(self, batch: Batch) -> float:
        by_bytes = batch.bytes / self._limits.max_bytes
        return min(1.0, max(by_bytes, len(batch.messages) / self._limits.max_messages))

    def _turn(self, at_most_s: float) -> None:
        self._settle()
        self._hand_over()
        if not self._is_connected():
            self._wait(None, min(at_most_s, max(0.0, self._retry_at - time.monotonic())))
        elif self._connection is not None:
            self._wait(self._connection, min(at_most_s, self._due_in()))
            self._connection.turn(wants_more=lambda: not self._is_stuffed)

    def _is_connected(self) -> bool:
        if self._connection is not None and self._connection.is_open:
            return True
        if time.monotonic() < self._retry_at:
            return False
        try:
            self.connect()
        except BrokerUnavailable as error:
            self._lost_broker(str(error))
        return self._connection is not None

    def _lost_broker(self, reason: str) -> None:
        self.report.broker_trouble = reason
        self._retry_at = time.monotonic() + self._connect_backoff.next_delay()
        log_event("broker_unavailable", level=logging.WARNING, reason=reason)

    def _wait(self, connection: Connection | None, timeout_s: float) -> None:
        poll = select.poll()
        poll.register(self._wakened, select.POLLIN)
        if connection is not None and connection.is_open:
            reading = 0 if self._is_stuffed else select.POLLIN
            poll.register(connection, reading | (select.POLLOUT * connection.wants_to_write))
        poll.poll(timeout_s * 1000)
        _empty(self._wakened)

    @property
    def _is_stuffed(self) -> bool:
        return self._batch is not None and self._batch.is_full(self._limits)

    def _due_in(self) -> float:
        """Seconds until the collected batch can be handed over; the writer's end wakes us too."""
        if self._batch is None or self._writing is not None:
            return _LONGEST_WAIT_S
        return self._batch.due_in(self._limits, time.monotonic())

    def _collect(self, connection: Connection, message: MQTTMessage) -> None:
        if self._batch is None or self._batch.connection is not connection:
            self._batch = Batch(connection, time.monotonic())
        number = message.mid if message.qos > 0 else None
        self._batch.add(landed_message(message, time.time_ns() // 1000), number)

    def _hand_over(self, *, at_once: bool = False) -> None:
        batch = self._batch
        if batch is None or self._writing is not None:
            return
        if at_once or batch.due_in(self._limits, time.monotonic()) == 0:
            self._batch = None
            self._writing = _Writing(batch, self._pool.submit(self._writer.land, batch.messages))
            self._writing.done.add_done_callback(lambda _: self._waker.send(b"."))

    def _settle(self) -> None:
        if self._writing is None or not self._writing.done.done():
            return
        batch, done = self._writing
        self._writing = None
        try:
            landed = done.result()
        except (OSError, ArrowException) as error:
            self._lost_disk(error)
            return
        self._acknowledge(batch)
        self.report.add(landed.segments, registered=landed.registered)
        self.report.disk_trouble = None
        self._disk_backoff.reset()

    def _acknowledge(self, batch: Batch) -> None:
        crash_point("ack.before")
        batch.connection.acknowledge(batch.to_acknowledge)
        crash_point("ack.after")

    def _lost_disk(self, error: Exception) -> None:
        """Give everything back to the broker, and try again later."""
        self.report.disk_trouble = f"Messages cannot be written: {error}. The broker keeps them."
        self._retry_at = time.monotonic() + self._disk_backoff.next_delay()
        log_event("not_landed", level=logging.ERROR, reason=error)
        if self._connection is not None:
            self._connection.close()
        self._drop_collected()

    def _drop_collected(self) -> None:
        """Forget what a lost connection delivered: it was not acknowledged and comes again."""
        self._connection = None
        self._batch = None

    def _finish(self) -> None:
        """Land what was collected, read nothing more."""
        while self._writing is not None or self._batch is not None:
            self._hand_over(at_once=True)
            if self._writing is not None:
                wait([self._writing.done])
            self._settle()
        if self._connection is not None:
            self._connection.keep()


def landed_message(message: MQTTMessage, landed_at: int) -> Message:
    """A message of the broker in the words of a segment."""
    return Message(
        segment_id="",
        position=0,
        topic=_topic(message),
        payload=bytes(message.payload),
        landed_at=landed_at,
        qos=message.qos,
        user_properties=_user_properties(message),
    )


def _topic(message: MQTTMessage) -> str:
    try:
        return message.topic
    except UnicodeDecodeError:
        return "\N{REPLACEMENT CHARACTER}"


def _user_properties(message: MQTTMessage) -> dict[str, str]:
    pairs: Sequence[tuple[str, str]] = getattr(message.properties, "UserProperty", ())
    return dict(pairs)


def _empty(wakened: socket.socket) -> None:
    try:
        wakened.recv(4096)
    except BlockingIOError:
        return
