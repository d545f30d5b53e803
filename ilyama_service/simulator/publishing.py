"""Sends the messages of a fleet over few connections, at its pace, and knows what arrived.

All messages of a device go over one connection and in order. After a connection was lost, nothing
new is sent before everything old is acknowledged, so that no message overtakes another.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Final

from ilyama_resources.mqtt.client import MqttClient, Ticket
from ilyama_service.simulator.messages import Behaviour, SimulatedMessage
from ilyama_service.simulator.pacing import Pace
from ilyama_service.simulator.probing import ProbeWatch
from ilyama_service.simulator.record import RunRecord
from ilyama_service.simulator.summary import Summary, Tally

IN_FLIGHT: Final = 200
_AT_ONCE: Final = 100
_TURN_S: Final = 0.02
_IDLE_TURN_S: Final = 0.2


class Publication:
    """One run: publishes, records, counts."""

    def __init__(
        self,
        clients: Sequence[MqttClient],
        record: RunRecord,
        *,
        stopped: threading.Event,
        watch: ProbeWatch | None = None,
    ) -> None:
        self._clients = clients
        self._record = record
        self._stopped = stopped
        self._watch = watch
        self._tally = Tally()
        self._waiting: dict[int, Behaviour] = {}
        self._settled: deque[tuple[int, bool]] = deque()
        self._connects = self._count_connects()
        self._lost_before = self._count_lost()
        self._held = False
        self._began = time.monotonic()

    def publish(
        self,
        messages: Iterator[SimulatedMessage],
        *,
        limit: int,
        pace: Pace,
        progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Publish so many messages, or until the order to stop."""
        left = limit
        while left and not self._stopped.is_set():
            portion = list(islice(messages, min(pace.due(), self._room(), _AT_ONCE, left)))
            self._send(portion)
            pace.take(len(portion))
            left -= len(portion)
            self._note_settled()
            progress(limit - left)
            if left:
                self._stopped.wait(self._pause_s(pace))

    def await_acknowledgements(self, within_s: float) -> None:
        """Wait until everything is acknowledged, or the time is over."""
        deadline = time.monotonic() + within_s
        self._note_settled()
        while self._waiting and time.monotonic() < deadline:
            time.sleep(_TURN_S)
            self._note_settled()

    def summary(self) -> Summary:
        """What the run came to so far."""
        tally = self._tally
        published, acknowledged = tally.published.total(), tally.acknowledged.total()
        return Summary(
            run=self._record.header.run,
            record=str(self._record.path),
            seconds=round(time.monotonic() - self._began, 3),
            published=published,
            acknowledged=acknowledged,
            unacknowledged=published - acknowledged,
            refused=tally.refused,
            bytes=tally.bytes,
            lost_connections=self._count_lost() - self._lost_before,
            behaviours=tally.behaviours(),
            latency=None if self._watch is None else self._watch.latency(),
        )

    def _send(self, portion: Sequence[SimulatedMessage]) -> None:
        if not portion:
            return
        self._record.sent([message.sent for message in portion])
        for message in portion:
            sent = message.sent
            client = self._clients[sent.device % len(self._clients)]
            self._waiting[sent.number] = sent.behaviour
            self._tally.published[sent.behaviour] += 1
            self._tally.bytes += len(message.payload)
            if sent.behaviour is Behaviour.PROBE and self._watch is not None:
                self._watch.published(self._record.header.plan.moment_ms(sent.number))
            ticket = client.publish(sent.topic, message.payload)
            ticket.add_done_callback(partial(self._settle, sent.number))

    def _settle(self, number: int, ticket: Ticket) -> None:
        # Called by the client's thread: only notes what is then counted by ours.
        acknowledged = not ticket.cancelled() and ticket.exception() is None
        self._settled.append((number, acknowledged))

    def _note_settled(self) -> None:
        settled = [self._settled.popleft() for _ in range(len(self._settled))]
        numbers = [number for number, acknowledged in settled if acknowledged]
        self._record.acknowledged(numbers)
        for number, acknowledged in settled:
            behaviour = self._waiting.pop(number)
            self._tally.acknowledged[behaviour] += acknowledged
            self._tally.refused += not acknowledged

    def _room(self) -> int:
        """How many messages may be sent now."""
        if not all(client.is_connected for client in self._clients):
            return 0
        connects = self._count_connects()
        self._held = bool(self._waiting) and (self._held or connects != self._connects)
        self._connects = connects
        # All of them may be for one connection, whose client would block when it has more.
        return 0 if self._held else max(0, IN_FLIGHT - len(self._waiting))

    def _pause_s(self, pace: Pace) -> float:
        if self._waiting:
            return max(_TURN_S, min(pace.until_next(), _IDLE_TURN_S))
        return min(pace.until_next(), _IDLE_TURN_S)

    def _count_connects(self) -> int:
        return sum(client.counters.connects for client in self._clients)

    def _count_lost(self) -> int:
        return sum(client.counters.lost_connections for client in self._clients)
