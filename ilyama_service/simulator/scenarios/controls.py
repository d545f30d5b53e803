"""Messages that are no batches, at the wrong time or too often."""

from ilyama_protocol.rejections import RejectionCode
from ilyama_protocol.validation.envelopes import FORMAT_VERSION
from ilyama_service.simulator.envelopes import Document
from ilyama_service.simulator.scenarios.expected import handled, rejected
from ilyama_service.simulator.scenarios.script import ACK, OBSERVE, REQUEST, TABLE, Script
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


def finalize(device: Script) -> Document:
    """A sound message that an upload is done."""
    upload = {"batch_id": device.uuid7(), "segment_kind": "payload_spill"}
    return url_request(device) | {"request_kind": "finalize"} | upload


def unknown_acknowledgement(device: Script) -> None:
    """A control that was never sent is acknowledged, twice: it changes nothing."""
    receipt = acknowledgement(device)
    for _ in range(2):
        device.sends(receipt, handled(), on=ACK)


def repeated_request(device: Script) -> None:
    """An upload is asked for again and again; each answer voids the one before."""
    for _ in range(3):
        device.sends(url_request(device), handled(), on=REQUEST)


def odd_acknowledgements(device: Script) -> None:
    """Ids of controls are empty, long, or in any script: any text is an id."""
    for control_id in ("", " ", "../x", "zażółć", "\0", "x" * 10_000, device.uuid7().upper()):
        device.sends(acknowledgement(device) | {"control_id": control_id}, handled(), on=ACK)


def unknown_request_kinds(device: Script) -> None:
    """What is asked for is of no known kind."""
    for kind in ("", "URL_REQUEST", "url_request ", "grant", "snapshot", "finalise"):
        asked = url_request(device) | {"request_kind": kind}
        device.sends(asked, rejected(RejectionCode.INVALID_ENVELOPE), on=REQUEST)


def finalize_without_a_grant(device: Script) -> None:
    """An upload that was never granted is finalized, twice: nothing is there to be taken."""
    finalized = finalize(device)
    for _ in range(2):
        device.sends(finalized, handled(), on=REQUEST)


def observations(device: Script) -> None:
    """Schemas are observed, one of them with columns of another hash: advice, never a fault."""
    seen = observation(device)
    device.sends(seen, handled(), on=OBSERVE)
    device.sends(seen | {"schema_hash": "0" * 64}, handled(), on=OBSERVE)


CONTROLS = (
    unknown_acknowledgement,
    odd_acknowledgements,
    repeated_request,
    unknown_request_kinds,
    finalize_without_a_grant,
    observations,
)
