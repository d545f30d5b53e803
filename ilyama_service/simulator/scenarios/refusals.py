"""Every code that a message can be rejected with, in every way that is known."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from ilyama_protocol.rejections import RejectionCode
from ilyama_service.simulator import mutations
from ilyama_service.simulator.envelopes import Document
from ilyama_service.simulator.mutations import Mutation
from ilyama_service.simulator.scenarios.controls import acknowledgement, finalize, observation
from ilyama_service.simulator.scenarios.expected import rejected
from ilyama_service.simulator.scenarios.script import ACK, OBSERVE, REQUEST, ROWS, TELEMETRY, Script
from ilyama_service.simulator.spelling import compact

Sound = Callable[[Script], Document]


def _rows(device: Script) -> Document:
    return device.batch(device.changes(2))


_SOUND: Mapping[str, Sound] = {
    ROWS: _rows,
    TELEMETRY: lambda device: device.samples(),
    OBSERVE: observation,
    ACK: acknowledgement,
    REQUEST: finalize,
}
_MUTATIONS: Mapping[str, Mapping[str, tuple[Mutation, ...]]] = {
    ROWS: mutations.ROWS,
    TELEMETRY: mutations.TELEMETRY,
    OBSERVE: mutations.OBSERVE,
    ACK: mutations.ACK,
    REQUEST: mutations.REQUEST,
}
SPOILED_CODES = (
    *(RejectionCode.INVALID_NUMBER_ENCODING, RejectionCode.ENVELOPE_UNSTRIPPED_TENANT_FIELDS),
    *(RejectionCode.INVALID_FORMAT_VERSION, RejectionCode.UNSUPPORTED_FORMAT_VERSION),
    *(RejectionCode.UNSUPPORTED_CAPTURE_STRATEGY, RejectionCode.INVALID_BATCH_ID),
    *(RejectionCode.INVALID_ENVELOPE, RejectionCode.EMPTY_BATCH),
    *(RejectionCode.SCHEMA_HASH_MISMATCH, RejectionCode.INVALID_ROW),
    *(RejectionCode.COMMIT_SEQ_RANGE_MISMATCH, RejectionCode.ROW_COUNT_MISMATCH),
    *(RejectionCode.INVALID_ROW_ID, RejectionCode.CURSOR_TIMESTAMP_MISMATCH),
)
"""The codes that a changed member of a sound message can get; each is a scenario."""


def spoil(device: Script, *, code: RejectionCode) -> None:
    """Send messages of every kind, each spoiled in one way that gets this code."""
    for path, sound in _SOUND.items():
        for mutate in _MUTATIONS[path].get(code, ()):
            document = sound(device)
            mutate(document, device.chance)
            device.sends(document, rejected(code), on=path)


def unknown_topic(device: Script) -> None:
    """A sound batch is published where it does not belong: a reserved root, a missing name."""
    sound = _rows(device)
    for root in ("cdc/dev", f"devices/{device.device_name}", f"{device.slug}/"):
        device.sends_to(f"{root}/{ROWS}", sound, rejected(RejectionCode.UNKNOWN_TOPIC))


def payload_too_large(device: Script) -> None:
    """A payload has one byte too many, then far too many, sound or not."""
    refused = rejected(RejectionCode.PAYLOAD_TOO_LARGE)
    limit = device.limits.payload_max_bytes
    for path, sound in _SOUND.items():
        device.sends(compact(sound(device)).encode().ljust(limit + 1), refused, on=path)
    device.sends(b"{" * (limit + limit // 5), refused)


def invalid_json(device: Script) -> None:
    """Payloads are cut short, in the wrong encoding, or no JSON at all."""
    for path, sound in _SOUND.items():
        text = compact(sound(device)).encode()
        for broken in mutations.BROKEN_TEXTS:
            device.sends(broken(text), rejected(RejectionCode.INVALID_JSON), on=path)


def duplicate_keys(device: Script) -> None:
    """An object has a key twice, also when the second is escaped."""
    _send_values(device, mutations.TWICE_A_KEY)


def lone_surrogates(device: Script) -> None:
    """A text has half of a surrogate pair."""
    _send_values(device, mutations.LONE_SURROGATES)


def deep_nesting(device: Script) -> None:
    """Brackets are nested one level too deep, and so deep that they would exhaust a stack."""
    _send_values(device, mutations.TOO_DEEP)


def _send_values(device: Script, values: tuple[bytes, ...]) -> None:
    for value in values:
        spoiled = mutations.with_value(value, compact(_rows(device)).encode())
        device.sends(spoiled, rejected(RejectionCode.INVALID_JSON))


def batch_too_many_rows(device: Script) -> None:
    """A batch has one row too many, then many more of which the last is bad as well."""
    refused = rejected(RejectionCode.BATCH_TOO_MANY_ROWS)
    most = device.limits.batch_max_rows
    for count in (most + 1, max(most + 2, 5000)):
        short = [{"commit_seq": 1, "op": "update", "pk": {"n": 1}, "row": {}}] * count
        device.sends(device.batch(short, announced=False), refused)
    device.sends(device.batch([*short[:-1], {"commit_seq": 1}]), refused)
    samples = device.measured(1) * (most + 1)
    device.sends(device.samples(rows=samples), refused, on=TELEMETRY)


def unregistered_device(device: Script) -> None:
    """A device that nobody registered sends a message of every kind."""
    refused = rejected(RejectionCode.UNREGISTERED_DEVICE)
    for path, sound in _SOUND.items():
        device.sends(sound(device), refused, on=path, registered=False)


def two_faults(device: Script) -> None:
    """A message breaks two rules: the first check that fails names the code."""
    pairs = ((RejectionCode.INVALID_BATCH_ID, RejectionCode.INVALID_ROW),)
    for first, second in [*pairs, *_neighbours()]:
        document = _rows(device)
        for code in (second, first):
            device.chance.choice(mutations.ROWS[code])(document, device.chance)
        device.sends(document, rejected(first))


def two_faults_of_telemetry(device: Script) -> None:
    """A telemetry batch breaks two rules: the first check that fails names the code."""
    for first, second in _neighbours_of_telemetry():
        document = device.samples(announced=True)
        for code in (second, first):
            mutations.TELEMETRY[code][0](document, device.chance)
        device.sends(document, rejected(first), on=TELEMETRY)


def _neighbours_of_telemetry() -> Iterator[tuple[RejectionCode, RejectionCode]]:
    """Codes of checks on different members, in the order of the checks."""
    yield RejectionCode.INVALID_BATCH_ID, RejectionCode.SCHEMA_HASH_MISMATCH
    yield RejectionCode.SCHEMA_HASH_MISMATCH, RejectionCode.ROW_COUNT_MISMATCH
    yield RejectionCode.ROW_COUNT_MISMATCH, RejectionCode.INVALID_ROW_ID
    yield RejectionCode.INVALID_ROW_ID, RejectionCode.CURSOR_TIMESTAMP_MISMATCH


def _neighbours() -> Iterator[tuple[RejectionCode, RejectionCode]]:
    """Codes of checks on different members, in the order of the checks."""
    yield RejectionCode.ENVELOPE_UNSTRIPPED_TENANT_FIELDS, RejectionCode.INVALID_FORMAT_VERSION
    yield RejectionCode.UNSUPPORTED_FORMAT_VERSION, RejectionCode.UNSUPPORTED_CAPTURE_STRATEGY
    yield RejectionCode.UNSUPPORTED_CAPTURE_STRATEGY, RejectionCode.INVALID_BATCH_ID
    yield RejectionCode.INVALID_BATCH_ID, RejectionCode.EMPTY_BATCH
    yield RejectionCode.SCHEMA_HASH_MISMATCH, RejectionCode.COMMIT_SEQ_RANGE_MISMATCH


REFUSALS = (
    unknown_topic,
    payload_too_large,
    invalid_json,
    duplicate_keys,
    lone_surrogates,
    deep_nesting,
    unregistered_device,
    batch_too_many_rows,
    two_faults,
    two_faults_of_telemetry,
)
SPOILED = {code: partial(spoil, code=code) for code in SPOILED_CODES}
