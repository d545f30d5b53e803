"""One life of a network connection, driven by the thread of its owner.

It never reconnects: whoever wants a new connection opens a new object. So an acknowledgement, which
goes to the object that delivered the message, cannot reach a newer connection.
"""

import select
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from socket import SHUT_RDWR
from socket import socket as Socket
from ssl import SSLWantWriteError
from struct import Struct
from typing import Any, Final

from paho.mqtt.client import Client, MQTTMessage, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from ilyama_resources.mqtt.address import BrokerAddress
from ilyama_resources.mqtt.errors import BrokerRefused, BrokerUnavailable
from ilyama_resources.mqtt.events import log_event
from ilyama_resources.mqtt.property_texts import read_every_text
from ilyama_resources.mqtt.reading_client import ReadingClient

read_every_text()

KEEPALIVE_S: Final = 60
NEVER_EXPIRES: Final = 0xFFFFFFFF
_ANSWER_WITHIN_S: Final = 10.0
_READS_AT_ONCE: Final = 100
_PUBACK: Final = Struct("!BBH")
_PUBACK_HEAD: Final = (0x40, 2)
"""The type of an acknowledgement, and the length of the number that follows."""

OnMessage = Callable[["Connection", MQTTMessage], None]


class Connection:
    """A connection with acknowledgement by hand; its session stays on the broker if it lasts."""

    def __init__(
        self,
        address: BrokerAddress,
        client_id: str,
        *,
        on_message: OnMessage,
        receive_maximum: int,
        lasting: bool = True,
    ) -> None:
        self.session_present = False
        self._address = address
        self._on_message = on_message
        self._receive_maximum = receive_maximum
        self._lasting = lasting
        self._messages = 0
        self._answer: ReasonCode | None = None
        self._answers: dict[int, list[ReasonCode]] = {}
        self._client = self._make_client(client_id)

    def open(self) -> None:
        """Connect and resume the session, or begin it.

        Raises:
            BrokerUnavailable: there is no broker, or it refuses.
        """
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = NEVER_EXPIRES if self._lasting else 0
        properties.ReceiveMaximum = self._receive_maximum
        where = (self._address.host, self._address.port, KEEPALIVE_S)
        try:
            self._client.connect(*where, clean_start=not self._lasting, properties=properties)
        except (OSError, ValueError) as error:
            raise BrokerUnavailable(f"The broker {self._address} is not there: {error}") from error
        self._await(lambda: self._answer is not None)
        if self._answer is None or self._answer.is_failure:
            raise BrokerRefused(f"The broker {self._address} refuses: {self._answer}.")
        log_event("connected", broker=self._address, session_present=self.session_present)

    def subscribe(self, filters: Sequence[str]) -> None:
        """Subscribe to topics with QoS 1, and wait for the broker's consent.

        Raises:
            BrokerUnavailable: the connection was lost, or the broker refuses one of them.
        """
        options = SubscribeOptions(qos=1)
        _, number = self._client.subscribe([(topic, options) for topic in filters])
        for topic, answer in zip(filters, self._answers_to(number), strict=True):
            if answer.is_failure:
                raise BrokerRefused(f"The broker refuses a subscription to {topic}: {answer}.")

    @property
    def is_open(self) -> bool:
        """Whether the connection still stands, as far as anybody knows."""
        return self._client.socket() is not None

    def fileno(self) -> int:
        """The descriptor to wait on."""
        socket = self._client.socket()
        return -1 if socket is None else socket.fileno()

    @property
    def wants_to_write(self) -> bool:
        """Whether something waits to be sent."""
        return self._client.want_write()

    @property
    def has_unread(self) -> bool:
        """Whether something is to be read though the descriptor may not say so."""
        return self._client.has_unread

    def turn(self, wants_more: Callable[[], bool] = lambda: True) -> None:
        """Read what has come and is wanted, send what waits, keep alive; returns at once."""
        for _ in range(_READS_AT_ONCE):
            before = self._messages
            if not wants_more():
                break
            if self._client.loop_read() != MQTTErrorCode.MQTT_ERR_SUCCESS:
                return
            if self._messages == before:
                break
        self.keep()

    def keep(self) -> None:
        """Send what waits and keep alive, without reading."""
        if self.wants_to_write:
            self._client.loop_write()
        self._client.loop_misc()

    def acknowledge(self, numbers: Sequence[int]) -> None:
        """Tell the broker that it may forget messages of this connection, in one write.

        The client library has a call to acknowledge one message, and writes once for each.
        """
        self._write(b"".join(_PUBACK.pack(*_PUBACK_HEAD, number) for number in numbers))

    def close(self) -> None:
        """Send what waits and leave; the session stays."""
        if self.is_open:
            self._client.disconnect()
            deadline = time.monotonic() + _ANSWER_WITHIN_S
            while self.is_open and self.wants_to_write and time.monotonic() < deadline:
                _wait(self.fileno(), select.POLLOUT, timeout_s=1)
                self._client.loop_write()

    def _write(self, packets: bytes) -> None:
        """Write whole packets between those of the library, or give the connection up."""
        left = packets
        deadline = time.monotonic() + _ANSWER_WITHIN_S
        while left and (socket := self._socket) is not None:
            try:
                left = left[self._send(socket, left) :]
            except OSError:
                return _give_up(socket)
            if left and time.monotonic() > deadline:
                return _give_up(socket)
            if left and self.is_open:
                _wait(self.fileno(), select.POLLOUT, timeout_s=0.1)

    def _send(self, socket: Socket, packets: bytes) -> int:
        """How many bytes were taken; none while the library is in the middle of a packet."""
        if self.wants_to_write:
            self._client.loop_write()
        try:
            return 0 if self.wants_to_write else socket.send(packets)
        except (BlockingIOError, SSLWantWriteError):
            return 0

    @property
    def _socket(self) -> Socket | None:
        found = self._client.socket()
        return found if isinstance(found, Socket) else None

    def _await(self, answered: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _ANSWER_WITHIN_S
        while self.is_open and not answered() and time.monotonic() < deadline:
            interest = select.POLLIN | (select.POLLOUT if self.wants_to_write else 0)
            _wait(self.fileno(), interest, timeout_s=0 if self.has_unread else 0.1)
            self.turn()
        if not answered():
            raise BrokerUnavailable(f"The broker {self._address} does not answer.")

    def _answers_to(self, number: int | None) -> list[ReasonCode]:
        if number is None:
            raise BrokerUnavailable(f"The connection to {self._address} was lost.")
        self._await(lambda: number in self._answers)
        return self._answers.pop(number)

    def _make_client(self, client_id: str) -> ReadingClient:
        client = ReadingClient(
            CallbackAPIVersion.VERSION2,
            client_id=client_id,
            protocol=MQTTv5,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        client.username_pw_set(self._address.username, self._address.password)
        if self._address.tls is not None:
            client.tls_set_context(self._address.tls)
        client.on_connect = self._connected
        client.on_disconnect = self._disconnected
        client.on_subscribe = self._answered
        client.on_message = self._received
        return client

    def _connected(self, _: Client, __: Any, flags: Any, reason: ReasonCode, ___: Any) -> None:
        self.session_present = flags.session_present
        self._answer = reason

    def _disconnected(self, _: Client, __: Any, ___: Any, reason: ReasonCode, ____: Any) -> None:
        log_event("disconnected", broker=self._address, reason=reason)

    def _answered(
        self, _: Client, __: Any, number: int, reasons: list[ReasonCode], ___: Any
    ) -> None:
        self._answers[number] = reasons

    def _received(self, _: Client, __: Any, message: MQTTMessage) -> None:
        self._messages += 1
        self._on_message(self, message)


def _give_up(socket: Socket) -> None:
    """Let the next reading find the connection ended; of half a packet nothing may follow."""
    with suppress(OSError):
        # Not by the method of a TLS socket, which would then read what is left as plain bytes.
        Socket.shutdown(socket, SHUT_RDWR)


def _wait(descriptor: int, interest: int, *, timeout_s: float) -> None:
    poll = select.poll()
    poll.register(descriptor, interest)
    poll.poll(timeout_s * 1000)
