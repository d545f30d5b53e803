"""A client that stays connected: publishes with QoS 1, listens, and knows what was acknowledged.

paho's own thread does the talking and reconnects; what was published and not acknowledged is sent
again by it. Nothing here holds a lock around a call of paho, and no callback raises.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from paho.mqtt.client import Client, MQTTMessage, MQTTv5, topic_matches_sub
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from ilyama_resources.mqtt.address import BrokerAddress
from ilyama_resources.mqtt.backoff import Backoff
from ilyama_resources.mqtt.connection import KEEPALIVE_S, NEVER_EXPIRES
from ilyama_resources.mqtt.errors import BrokerRefused, BrokerUnavailable, PublishRefused
from ilyama_resources.mqtt.events import log_event

MOST_IN_FLIGHT: Final = 200
# Topic, user properties and header of a packet beside its payload, generously.
_PACKET_OVERHEAD: Final = 64 * 1024
_LOOK_AGAIN_S: Final = 0.2
_HEARS_OUT_S: Final = 5.0
_SETTLES_S: Final = 5.0
_NOBODY_LISTENS_TO: Final = "nothing"

Listener = Callable[[str, bytes], None]
"""Takes the topic and the payload of a message that came."""
Ticket = Future[None]
"""Done when the broker has acknowledged a message; failed when it refused it."""


@dataclass
class MqttCounters:
    """What a client has seen since it was made."""

    connects: int = 0
    lost_connections: int = 0
    published: int = 0
    published_again: int = 0
    acknowledged: int = 0
    refused: int = 0
    received: int = 0


class _Acknowledged(NamedTuple):
    reason: ReasonCode


class _Pending(NamedTuple):
    ticket: Ticket
    since: float
    takes_room: bool


class MqttClient:
    """One client id on a broker."""

    def __init__(
        self,
        address: BrokerAddress,
        client_id: str,
        *,
        persistent: bool = False,
        most_in_flight: int = MOST_IN_FLIGHT,
    ) -> None:
        self.counters = MqttCounters()
        self._address = address
        self._client_id = client_id
        self._persistent = persistent
        self._room = threading.BoundedSemaphore(most_in_flight)
        self._pending: dict[int, _Pending | _Acknowledged] = {}
        self._listeners: dict[str, Listener] = {}
        self._hearing = threading.RLock()
        self._backoff = Backoff()
        self._connected = threading.Event()
        self._settled = threading.Event()
        self._answer: ReasonCode | None = None
        self._stopped = False
        self._paho_thread: int | None = None
        self._max_payload: int | None = None
        self._client = self._make_client()

    def start(self) -> None:
        """Begin to connect, and to reconnect whenever that is needed; returns at once."""
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = NEVER_EXPIRES if self._persistent else 0
        self._client.connect_async(
            self._address.host,
            self._address.port,
            KEEPALIVE_S,
            clean_start=not self._persistent,
            properties=properties,
        )
        self._client.loop_start()

    def wait_until_connected(self, within_s: float = 10) -> None:
        """Wait for the connection.

        Raises:
            BrokerUnavailable: it was not there in time, or the broker refuses.
        """
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            if self._connected.wait(_LOOK_AGAIN_S):
                return
            if self._answer is not None and self._answer.is_failure:
                raise BrokerRefused(f"The broker {self._address} refuses: {self._answer}.")
        raise BrokerUnavailable(f"The broker {self._address} is not there.")

    @property
    def is_connected(self) -> bool:
        """Whether the connection stands, as far as anybody knows."""
        return self._connected.is_set()

    def listen(self, topic_filter: str, listener: Listener) -> None:
        """Call `listener` for messages of a topic, from paho's thread; an error in it is logged.

        To be called before `start`: a client counts as connected when it hears everything.
        """
        self._listeners[topic_filter] = listener

    def publish(
        self, topic: str, payload: bytes, properties: Mapping[str, str] | None = None
    ) -> Ticket:
        """Publish with QoS 1, not retained; waits while too much is not acknowledged.

        Raises:
            PublishRefused: the broker would not take a message of this size.
        """
        if self._max_payload is not None and len(payload) > self._max_payload:
            raise PublishRefused(f"{len(payload)} bytes are more than the broker takes.")
        pending = _Pending(Future(), time.monotonic(), self._take_room())
        try:
            number = self._send(topic, payload, properties)
        except (ValueError, PublishRefused):
            self._give_room_back(pending)
            raise
        self.counters.published += 1
        self._expect_acknowledgement(number, pending)
        return pending.ticket

    def unacknowledged(self, older_than_s: float = 0) -> int:
        """How many messages have waited so long for their acknowledgement."""
        since = time.monotonic() - older_than_s
        waiting = [entry for entry in list(self._pending.values()) if isinstance(entry, _Pending)]
        return sum(entry.since <= since for entry in waiting)

    def stop(self) -> None:
        """Disconnect; what the broker has not acknowledged yet it never will.

        What a listener has heard is acknowledged first, unless it listens for very long.
        """
        heard_out = self._hearing.acquire(timeout=_HEARS_OUT_S)
        self._stopped = True
        if heard_out:
            self._hearing.release()
            self._wait_until_settled()
        self._client.disconnect()
        self._client.loop_stop()
        for entry in list(self._pending.values()):
            if isinstance(entry, _Pending):
                entry.ticket.cancel()

    def __enter__(self) -> Self:
        """Start, and wait for the connection."""
        self.start()
        try:
            self.wait_until_connected()
        except BrokerUnavailable:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop."""
        self.stop()

    def _wait_until_settled(self) -> None:
        """Wait until the broker has read our acknowledgements.

        It reads in order, so it is enough that it answers something sent after them. What it has
        not read when the connection ends it forgets, and sends those messages again.
        """
        is_own_thread = threading.get_ident() == self._paho_thread
        if self.counters.received and self.is_connected and not is_own_thread:
            self._client.unsubscribe(_NOBODY_LISTENS_TO)
            self._settled.wait(_SETTLES_S)

    def _unsubscribed(self, *_: Any) -> None:
        self._settled.set()

    def _send(self, topic: str, payload: bytes, properties: Mapping[str, str] | None) -> int:
        user_properties = _user_properties(properties)
        info = self._client.publish(topic, payload, qos=1, properties=user_properties)
        if info.rc == MQTTErrorCode.MQTT_ERR_QUEUE_SIZE:
            raise PublishRefused("A message of long ago is still not acknowledged.")
        return info.mid

    def _take_room(self) -> bool:
        if threading.get_ident() == self._paho_thread:
            # A listener that waited here would keep the acknowledgements from being read.
            return False
        while not self._room.acquire(timeout=_LOOK_AGAIN_S):
            if self._stopped:
                raise PublishRefused("The client has been stopped.")
        return True

    def _give_room_back(self, pending: _Pending) -> None:
        if pending.takes_room:
            self._room.release()

    def _expect_acknowledgement(self, number: int, pending: _Pending) -> None:
        # It may have come before we could look: whoever is second finishes.
        first = self._pending.setdefault(number, pending)
        if isinstance(first, _Acknowledged):
            self._finish(number, pending, first.reason)

    def _published(self, _: Client, __: Any, number: int, reason: ReasonCode, ___: Any) -> None:
        first = self._pending.setdefault(number, _Acknowledged(reason))
        if isinstance(first, _Pending):
            self._finish(number, first, reason)

    def _finish(self, number: int, pending: _Pending, reason: ReasonCode) -> None:
        del self._pending[number]
        self._give_room_back(pending)
        ticket = pending.ticket
        if not ticket.set_running_or_notify_cancel():
            return
        if reason.is_failure:
            self.counters.refused += 1
            ticket.set_exception(PublishRefused(f"The broker refused a message: {reason}."))
        else:
            self.counters.acknowledged += 1
            self._backoff.reset()
            ticket.set_result(None)

    def _connection_made(
        self, _: Client, __: Any, ___: Any, reason: ReasonCode, properties: Properties | None
    ) -> None:
        self._paho_thread = threading.get_ident()
        self._answer = reason
        if reason.is_failure:
            log_event("refused", level=logging.WARNING, client_id=self._client_id, reason=reason)
            return
        largest = getattr(properties, "MaximumPacketSize", None)
        self._max_payload = None if largest is None else largest - _PACKET_OVERHEAD
        self.counters.connects += 1
        self._note_messages_sent_again()
        log_event("connected", client_id=self._client_id, broker=self._address)
        if self._listeners:
            options = SubscribeOptions(qos=1)
            self._client.subscribe([(topic, options) for topic in self._listeners])
        else:
            self._connected.set()

    def _subscribed(
        self, _: Client, __: Any, ___: int, reasons: list[ReasonCode], ____: Any
    ) -> None:
        refusals = [reason for reason in reasons if reason.is_failure]
        if refusals:
            self._answer = refusals[0]
            log_event(
                "refused", level=logging.WARNING, client_id=self._client_id, reason=refusals[0]
            )
        else:
            self._connected.set()

    def _note_messages_sent_again(self) -> None:
        again = self.unacknowledged()
        self.counters.published_again += again
        if not again:
            # Else the first acknowledgement does it: a broker may take us and not our messages.
            self._backoff.reset()

    def _connection_lost(self, _: Client, __: Any, ___: Any, reason: Any, ____: Any) -> None:
        self._connected.clear()
        self.counters.lost_connections += not self._stopped
        self._delay_next_attempt()
        log_event("disconnected", client_id=self._client_id, reason=reason)

    def _connection_failed(self, _: Client, __: Any) -> None:
        self._delay_next_attempt()
        log_event("not_connected", level=logging.WARNING, client_id=self._client_id)

    def _delay_next_attempt(self) -> None:
        delay: Any = self._backoff.next_delay()
        self._client.reconnect_delay_set(delay, delay)

    def _received(self, client: Client, _: Any, message: MQTTMessage) -> None:
        with self._hearing:
            if self._stopped:
                # Its acknowledgement would not leave any more: the broker keeps it.
                return
            self.counters.received += 1
            for topic_filter, listener in self._listeners.items():
                if topic_matches_sub(topic_filter, message.topic):
                    self._tell(listener, message)
            client.ack(message.mid, message.qos)

    def _tell(self, listener: Listener, message: MQTTMessage) -> None:
        try:
            listener(message.topic, bytes(message.payload))
        except Exception:
            log_event("listener_failed", level=logging.ERROR, client_id=self._client_id)
            logging.getLogger(__name__).exception("A listener failed.")

    def _make_client(self) -> Client:
        client = Client(
            CallbackAPIVersion.VERSION2,
            client_id=self._client_id,
            protocol=MQTTv5,
            manual_ack=True,
        )
        client.username_pw_set(self._address.username, self._address.password)
        if self._address.tls is not None:
            client.tls_set_context(self._address.tls)
        # The bound is ours: paho's own lets a message overtake one that waits behind it.
        client.max_inflight_messages_set(0)
        client.suppress_exceptions = True
        client.on_connect = self._connection_made
        client.on_disconnect = self._connection_lost
        client.on_connect_fail = self._connection_failed
        client.on_subscribe = self._subscribed
        client.on_unsubscribe = self._unsubscribed
        client.on_publish = self._published
        client.on_message = self._received
        return client


def _user_properties(pairs: Mapping[str, str] | None) -> Properties | None:
    if not pairs:
        return None
    properties = Properties(PacketTypes.PUBLISH)
    properties.UserProperty = list(pairs.items())
    return properties
