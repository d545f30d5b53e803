"""Checks 0 to 3: the topic, the size, and JSON that is fit to be read."""

from ilyama_protocol.jsontext import JsonTextError, first_number_not_finite, parse_object
from ilyama_protocol.topics import trouble_with
from ilyama_protocol.validation.cases import Case, Fault


def unknown_topic(case: Case) -> Fault | None:
    """Check 0: the topic is an inbound one."""
    if case.kind is not None:
        return None
    return Fault("$", trouble_with(case.topic))


def payload_too_large(case: Case) -> Fault | None:
    """Check 1: the payload is within its limit."""
    size, limit = len(case.payload), case.limits.payload_max_bytes
    if size <= limit:
        return None
    return Fault("$", f"the payload has {size} bytes, {limit} are allowed; split the batch")


def invalid_json(case: Case) -> Fault | None:
    """Check 2: the payload is one strict JSON object."""
    try:
        case.document = parse_object(case.payload)
    except JsonTextError as error:
        return Fault("$", str(error))
    return None


def invalid_number(case: Case) -> Fault | None:
    """Check 3: every number is finite."""
    path = first_number_not_finite(case.document, case.payload)
    if path is None:
        return None
    return Fault(path, f"{path[2:]} is not a finite number; send null or leave it out")
