"""Messages that are no batches, at the wrong time or too often."""

from ilyama_protocol.validation.envelopes import FORMAT_VERSION
from ilyama_service.simulator.envelopes import Document
from ilyama_service.simulator.scenarios.script import (
    ACK,
    OBSERVE,
    REQUEST,
    TABLE,
    Script,
    handled,
)
from ilyama_service.simulator.source_tables import rfc3339


def observation(device: Script) -> Document:
    """A sound observation of a schema."""
    batch = device.batch(device.changes(1))
    names = ("format_version", "source_table", "schema_hash", "schema_columns")
    return {name: batch[name] for name in names} | {"observed_at": rfc3339(0)}


def acknowledgement(device: Script) -> Document:
    """A sound receipt for a control that was never sent."""
    return {"format_version": FORMAT_VERSION, "control_id": device.uuid7()}


def url_request(device: Script) -> Document:
    """A sound request for an upload."""
    del device
    return {"format_version": FORMAT_VERSION, "request_kind": "url_request", "source_table": TABLE}


def unknown_acknowledgement(device: Script) -> None:
    """A control that was never sent is acknowledged, twice: it changes nothing."""
    receipt = acknowledgement(device)
    for _ in range(2):
        device.sends(receipt, handled(), on=ACK)


def repeated_request(device: Script) -> None:
    """An upload is asked for again and again; each answer voids the one before."""
    for _ in range(3):
        device.sends(url_request(device), handled(), on=REQUEST)


def observations(device: Script) -> None:
    """Schemas are observed, one of them with columns of another hash: advice, never a fault."""
    seen = observation(device)
    device.sends(seen, handled(), on=OBSERVE)
    device.sends(seen | {"schema_hash": "0" * 64}, handled(), on=OBSERVE)


CONTROLS = (unknown_acknowledgement, repeated_request, observations)
