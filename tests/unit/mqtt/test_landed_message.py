from paho.mqtt.client import MQTTMessage
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from ilyama_resources.mqtt.batches import landed_message


def test_a_message_keeps_its_words() -> None:
    message = MQTTMessage(topic="größe/b/sync/rows/batch".encode())
    message.payload, message.qos = b"{}", 1
    message.properties = Properties(PacketTypes.PUBLISH)
    message.properties.UserProperty = [("firmware_version", "1"), ("firmware_version", "2")]
    landed = landed_message(message, 77)
    assert (landed.topic, landed.payload) == ("größe/b/sync/rows/batch", b"{}")
    assert (landed.landed_at, landed.qos) == (77, 1)
    assert landed.user_properties == {"firmware_version": "2"}


def test_a_topic_that_is_no_text_raises_nothing() -> None:
    message = MQTTMessage(topic=b"\xff/b/sync/rows/batch")
    message.payload = b""
    assert landed_message(message, 0).topic == "\N{REPLACEMENT CHARACTER}"
