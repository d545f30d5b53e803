"""Asks a broker whether it takes the platform for a client."""

from ilyama_resources.mqtt.address import BrokerAddress
from ilyama_resources.mqtt.connection import Connection


def greet(address: BrokerAddress, client_id: str) -> None:
    """Connect and leave again; nothing of it stays on the broker.

    Raises:
        BrokerUnavailable: there is no broker, or it refuses.
    """
    connection = Connection(
        address, client_id, on_message=lambda *_: None, receive_maximum=1, lasting=False
    )
    try:
        connection.open()
    finally:
        connection.close()
