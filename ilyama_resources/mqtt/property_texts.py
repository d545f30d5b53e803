"""Texts in the properties of messages, read as the broker sends them.

paho ends with an error at a text with U+FEFF, which MQTT allows, or with U+0000, which another
broker may let pass. Such a message could never be taken, nor any that comes after it.
"""

from __future__ import annotations

from typing import Final

from paho.mqtt import MQTTException, properties

_LENGTH_BYTES: Final = 2


def read_every_text() -> None:
    """Let paho read properties, in this process, whatever texts they hold."""
    properties.readUTF = _read


def _read(buffer: bytes, at_most: int) -> tuple[str, int]:
    """A text, and how many bytes it takes with its length before it."""
    end = _LENGTH_BYTES + int.from_bytes(buffer[:_LENGTH_BYTES], "big")
    if at_most < end or len(buffer) < end:
        raise MQTTException("a text is longer than its packet")
    return bytes(buffer[_LENGTH_BYTES:end]).decode(errors="replace"), end
