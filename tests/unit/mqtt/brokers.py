"""A broker that speaks no more than it must."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Final

from ilyama_resources.embedded.ports import LOOPBACK
from ilyama_resources.mqtt.address import BrokerAddress
from ilyama_resources.mqtt.connection import Connection, OnMessage
from ilyama_resources.settings import Settings

_CONNACK: Final = b"\x20\x03\x00\x00\x00"


@contextmanager
def connected(
    on_message: OnMessage = lambda *_: None,
) -> Iterator[tuple[Connection, socket.socket]]:
    """An open connection, and the broker's end of it."""
    with socket.create_server((LOOPBACK, 0)) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        url = f"mqtt://{LOOPBACK}:{server.getsockname()[1]}"
        address = BrokerAddress.of(url, Settings())
        connection = Connection(
            address, "lander", on_message=on_message, receive_maximum=10, lasting=False
        )
        opening = Thread(target=connection.open)
        opening.start()
        broker, _ = server.accept()
        with broker:
            broker.recv(1024)
            broker.sendall(_CONNACK)
            opening.join()
            yield connection, broker
