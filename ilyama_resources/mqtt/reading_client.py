"""paho's client, reading from the network as much as there is, and no more of it than is needed."""

from __future__ import annotations

from ssl import SSLSocket
from typing import Any, Final

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import MQTTErrorCode

_READ_AT_ONCE: Final = 64 * 1024
_NUMBER_BYTES: Final = 2
_QOS_BITS: Final = 0b0110
_AT_LEAST_ONCE: Final = 1


class ReadingClient(Client):
    """Reads ahead, where paho asks four times for each message, three times for a byte.

    It is for one connection only: what was read ahead of one that is lost is never delivered.
    It speaks MQTT 5, and its owner acknowledges.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._unread = memoryview(b"")

    @property
    def has_unread(self) -> bool:
        """Whether something is to be read though the network may have nothing."""
        socket = self.socket()
        return bool(self._unread) or (isinstance(socket, SSLSocket) and socket.pending() > 0)

    def _sock_recv(self, bufsize: int) -> bytes:
        if not self._unread:
            self._unread = memoryview(super()._sock_recv(max(bufsize, _READ_AT_ONCE)))
        taken, self._unread = self._unread[:bufsize], self._unread[bufsize:]
        return bytes(taken)

    def _handle_publish(self) -> MQTTErrorCode:
        """Deliver a message; paho spends half of its time on properties, also where none are."""
        message = _plain_message(self._in_packet["command"], self._in_packet["packet"])
        if message is None:
            return super()._handle_publish()
        self._handle_on_message(message)
        return MQTTErrorCode.MQTT_ERR_SUCCESS


def _plain_message(head: int, packet: bytearray) -> MQTTMessage | None:
    """What a packet brings, if it is whole, has no properties and is for QoS 0 or 1."""
    qos = (head & _QOS_BITS) >> 1
    topic_ends = _NUMBER_BYTES + int.from_bytes(packet[:_NUMBER_BYTES], "big")
    properties = topic_ends + _NUMBER_BYTES * qos
    if qos > _AT_LEAST_ONCE or len(packet) <= properties or packet[properties]:
        return None
    number = int.from_bytes(packet[topic_ends:properties], "big")
    message = MQTTMessage(number, bytes(packet[_NUMBER_BYTES:topic_ends]))
    message.qos = qos
    message.payload = bytes(memoryview(packet)[properties + 1 :])
    return message
