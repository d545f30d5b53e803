"""Publishes a file as one message and waits until the broker has acknowledged it.

`python publish.py batch.json acme/station-1/sync/rows/batch mqtt://user:password@127.0.0.1:1883`
"""

import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

from paho.mqtt.client import Client, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion


def publish(payload: bytes, topic: str, url: str) -> None:
    """Publish with QoS 1, not retained; raise when no acknowledgement comes."""
    broker = urlsplit(url)
    client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTv5)
    client.username_pw_set(unquote(broker.username or ""), unquote(broker.password or ""))
    client.connect(broker.hostname or "127.0.0.1", broker.port or 1883)
    client.loop_start()
    message = client.publish(topic, payload, qos=1)
    message.wait_for_publish(10)
    client.disconnect()
    client.loop_stop()
    if not message.is_published():
        raise SystemExit("not acknowledged: keep the bytes and send the same ones again")


if __name__ == "__main__":
    file, topic, url = sys.argv[1:]
    publish(Path(file).read_bytes(), topic, url)
