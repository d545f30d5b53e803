"""Streams as files of CloudEvents, the form in which other systems hand messages over."""

import base64
import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.oracle.records import Event

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def write_cloudevents(events: Iterable[Event], path: Path) -> None:
    """Write one CloudEvent per line, in arrival order."""
    with path.open("w", encoding="utf-8") as file:
        for number, event in enumerate(events):
            file.write(cloudevent(event, number) + "\n")


def cloudevent(event: Event, number: int) -> str:
    """One message as a CloudEvent v1.0 in JSON."""
    received_at = _EPOCH + timedelta(microseconds=event.received_at_us)
    envelope = {
        "specversion": "1.0",
        "id": f"message-{number}",
        "source": "tests/streams",
        "type": "MQTT.EventPublished",
        "subject": event.topic,
        "time": received_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "data_base64": base64.b64encode(event.payload).decode("ascii"),
    }
    return json.dumps(envelope, ensure_ascii=False)
