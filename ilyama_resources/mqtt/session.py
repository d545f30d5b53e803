"""A landing session: collects what comes, writes it, acknowledges it.

One thread, the caller's, talks to the broker; another writes. While a batch is being written the
next is collected, and while both are full nothing is read: the broker keeps what it has. Every
batch knows the connection that delivered it and is acknowledged there, or not at all.
"""

from __future__ import annotations

import logging
import select
import socket
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Final, NamedTuple

from paho.mqtt.client import MQTTMessage
from pyarrow import ArrowException

from ilyama_resources.faults import crash_point
from ilyama_resources.mqtt.backoff import Backoff
from ilyama_resources.mqtt.batches import Batch, BatchLimits, landed_message
from ilyama_resources.mqtt.connection import Connection, OnMessage
from ilyama_resources.mqtt.errors import BrokerUnavailable
from ilyama_resources.mqtt.events import log_event
from ilyama_resources.mqtt.reports import LandingReport
from ilyama_resources.mqtt.writing import Landed, SegmentWriter

_LONGEST_WAIT_S: Final = 0.5

Until = Callable[[LandingReport], bool]


class _Writing(NamedTuple):
    batch: Batch
    done: Future[Landed]


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
            timeout_s = 0 if reading and connection.has_unread else timeout_s
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
        now = time.monotonic()
        if self._batch is None or self._batch.connection is not connection:
            self._batch = Batch(connection, now)
        number = message.mid if message.qos > 0 else None
        self._batch.add(landed_message(message, time.time_ns() // 1000), number, now=now)

    def _hand_over(self, *, at_once: bool = False) -> None:
        batch = self._batch
        if batch is None or self._writing is not None:
            return
        if at_once or batch.due_in(self._limits, time.monotonic()) == 0:
            self._batch = None
            self._writing = _Writing(batch, self._pool.submit(self._writer.land, batch.messages))
            self._writing.done.add_done_callback(lambda _: self._waker.send(b"."))

    def _settle(self) -> None:
        self.report.fullest = max(self.report.fullest, self.fullness)
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


def _empty(wakened: socket.socket) -> None:
    try:
        wakened.recv(4096)
    except BlockingIOError:
        return
