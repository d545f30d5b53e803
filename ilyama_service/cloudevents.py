"""CloudEvents v1.0 as a way in: a captured message per line, or an event over HTTP."""

from datetime import UTC, datetime
from typing import Annotated, Literal

import msgspec

from ilyama_protocol.intake.outcomes import Message
from ilyama_protocol.jsontext import JsonTextError, parse_object
from ilyama_protocol.moments import micros
from ilyama_protocol.timestamps import microseconds, parse_instant

Text = Annotated[str, msgspec.Meta(min_length=1)]
LAST_MOMENT = micros(datetime(9999, 1, 1, tzinfo=UTC))
"""Later moments leave no room for the clock of a device to move on."""


class NotACloudEvent(ValueError):
    """A text is no CloudEvent that carries an MQTT message; its text says why."""


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
_batch_decoder = msgspec.json.Decoder(list[msgspec.Raw])
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_NO_PAYLOAD = "missing required field `data_base64`"
_WHERE_THE_PAYLOAD_GOES = "; the payload is read from data_base64 only, never from data"


def message_of(line: bytes, *, now: int) -> Message:
    """The message that a captured line carries; its segment and position come when it lands.

    Args:
        line: The CloudEvent in JSON.
        now: The received time of an event that names none.

    Raises:
        NotACloudEvent: The line is none.
    """
    event = event_of(line)
    return _message(event, _received_at(event, now))


def message_received(text: bytes | msgspec.Raw, *, now: int) -> Message:
    """The message of an event that arrives now, whatever time it names itself.

    Raises:
        NotACloudEvent: The text is none, or says something twice.
    """
    event = event_of(text)
    try:
        parse_object(bytes(text))
    except JsonTextError as error:
        raise NotACloudEvent(str(error)) from error
    return _message(event, now)


def event_of(text: bytes | msgspec.Raw) -> CloudEvent:
    """The event in a JSON text.

    Raises:
        NotACloudEvent: The text is none.
    """
    try:
        return _decoder.decode(text)
    except _UNREADABLE as error:
        hint = _WHERE_THE_PAYLOAD_GOES if _NO_PAYLOAD in str(error) else ""
        raise NotACloudEvent(f"{error}{hint}") from error


def texts_of(batch: bytes) -> list[msgspec.Raw]:
    """The JSON texts of the events in a batch.

    Raises:
        NotACloudEvent: The batch is no JSON array.
    """
    try:
        return _batch_decoder.decode(batch)
    except _UNREADABLE as error:
        raise NotACloudEvent(str(error)) from error


def _message(event: CloudEvent, received_at: int) -> Message:
    return Message("", 0, event.subject, event.data_base64, received_at)


def _received_at(event: CloudEvent, now: int) -> int:
    if event.time is None:
        return now
    instant = parse_instant(event.time)
    if instant is None or microseconds(instant) >= LAST_MOMENT:
        raise NotACloudEvent(f"time is not a moment of the years 0001 to 9998: {event.time!r}")
    return microseconds(instant)
