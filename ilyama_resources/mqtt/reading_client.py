"""paho's client, reading from the network as much as there is."""

from __future__ import annotations

from ssl import SSLSocket
from typing import Any, Final

from paho.mqtt.client import Client

_READ_AT_ONCE: Final = 64 * 1024


class ReadingClient(Client):
    """Reads ahead, where paho asks four times for each message, three times for a byte.

    It is for one connection only: what was read ahead of one that is lost is never delivered.
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
