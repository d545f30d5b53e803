"""CloudEvents v1.0 as a way in: a captured message per line."""

from datetime import UTC, datetime
from typing import Annotated, Literal

import msgspec

from ilyama_protocol.intake.outcomes import Message
from ilyama_protocol.moments import micros
from ilyama_protocol.timestamps import microseconds, parse_instant

Text = Annotated[str, msgspec.Meta(min_length=1)]
LAST_MOMENT = micros(datetime(9999, 1, 1, tzinfo=UTC))
"""Later moments leave no room for the clock of a device to move on."""


class NotACloudEvent(ValueError):
    """A line is no CloudEvent that carries an MQTT message; its text says why."""


class CloudEvent(msgspec.Struct):
    """The members of a CloudEvent that matter here."""

    specversion: Literal["1.0"]
    id: Text
    source: Text
    type: Text
    subject: str
    data_base64: bytes
    time: str | None = None


_decoder = msgspec.json.Decoder(CloudEvent)


def message_of(line: bytes, *, now: int) -> Message:
    """The message that a line carries; its segment and position come when it lands.

    Args:
        line: The CloudEvent in JSON.
        now: The received time of an event that names none.

    Raises:
        NotACloudEvent: The line is none.
    """
    try:
        event = _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise NotACloudEvent(str(error)) from error
    return Message("", 0, event.subject, event.data_base64, _received_at(event, now))


def _received_at(event: CloudEvent, now: int) -> int:
    if event.time is None:
        return now
    instant = parse_instant(event.time)
    if instant is None or microseconds(instant) >= LAST_MOMENT:
        raise NotACloudEvent(f"time is not a moment of the years 0001 to 9998: {event.time!r}")
    return microseconds(instant)
