"""Work orders: what the driver asks of a Spark task, and what comes back.

A drain's devices are spread over orders of about the same size. Everything a task must know is in
its order; everything the driver must know comes back as products.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from ilyama_protocol.governance.agreement import Claim
from ilyama_protocol.governance.reviews import ReviewAsked
from ilyama_protocol.governance.rules import DeviceRules, ProjectRules
from ilyama_protocol.intake.decisions import RefusedBatch
from ilyama_protocol.intake.history import (
    KnownBatch,
    KnownPayload,
    Need,
    NewestChange,
    StoredPoint,
    StoredRow,
)
from ilyama_protocol.intake.lineage_rulings import FAILURES_THAT_OPEN_THE_CIRCUIT, PauseReason
from ilyama_protocol.intake.outcomes import Origin
from ilyama_protocol.intake.sequences import SequenceChange, SequenceKind
from ilyama_protocol.limits import DEFAULT_LIMITS
from ilyama_resources.delta.data_files import DataFile
from ilyama_resources.delta.staged_files import StagedFile
from ilyama_resources.postgres.governance.bindings import PolicyAcceptance
from ilyama_resources.postgres.governance.shelved_schemas import ShelvedSchema
from ilyama_resources.postgres.staged_backlog import StagedSum


class LookedUp(msgspec.Struct):
    """What Spark found of the keys that a device needed."""

    stored: list[StoredRow] = []
    newest: list[NewestChange] = []
    payloads: list[KnownPayload] = []
    batches: list[KnownBatch] = []
    points: list[StoredPoint] = []


class DeviceOrder(msgspec.Struct):
    """One sender and all its topics in this drain; `device_id` None: not a known device."""

    device_id: str | None
    topics: list[str]
    firmware_version: str
    payload_bytes: int = 0
    state: str | None = None
    history: LookedUp | None = None
    stage_with: str | None = None
    """When set, nothing is decided: every message is staged with this error."""
    rules: DeviceRules = msgspec.field(default_factory=DeviceRules)
    """Why tables of the device are paused, and what was approved for it alone."""
    resets: list[str] = []
    """Tables whose telemetry batches are numbered anew from this drain on."""
    released: list[StagedSum] = []
    """What was staged of the device and is to be released in this drain."""


class WorkOrder(msgspec.Struct):
    """The devices that one task decides."""

    number: int
    drain_id: int
    attempt: int
    build: str
    segments: list[str]
    warehouse: str
    payload_max_bytes: int
    batch_max_rows: int
    served_instances: int
    devices: list[DeviceOrder]
    metric_days: int = DEFAULT_LIMITS.metric_days
    state_days: int = DEFAULT_LIMITS.state_days
    origin: Origin = Origin.LIVE
    poison: str | None = None
    projects: dict[str, ProjectRules] = {}
    """What is decided in the projects of the devices."""
    staged_files: list[StagedFile] = []
    """Where the rows that are to be released lie."""
    materialization_failures: int = FAILURES_THAT_OPEN_THE_CIRCUIT


class DeviceDone(msgspec.Struct):
    """A device that is decided, with its state after the drain, and its firmware if that is new."""

    device_id: str
    state: str
    firmware_version: str | None = None


class DeviceNeeds(msgspec.Struct):
    """A device that cannot be decided before something is looked up."""

    device_id: str | None
    needs: list[Need]


class LineagePaused(msgspec.Struct, frozen=True):
    """A lineage that the drain pauses, with a word for the operator."""

    device_id: str
    source_table: str
    reason: PauseReason
    note: str | None = None


class Findings(msgspec.Struct):
    """What the integrity checks found in what one task wrote."""

    messages: int = 0
    unbalanced: list[str] = []
    repeated_keys: list[str] = []
    rule_breaches: dict[str, int] = {}
    quarantined: dict[str, int] = {}
    out_of_window: int = 0
    repeated_samples: list[str] = []
    repeated_points: dict[str, list[str]] = {}
    """The ids of datapoints that are there twice, by table."""


class TaskFailed(msgspec.Struct):
    """A task that could not go on for want of something outside its messages."""

    sentence: str
    missing: list[StagedSum] = []
    """What was to be released and is not there."""


class RejectedNumbers(msgspec.Struct, frozen=True):
    """A rejected batch that may explain a gap, with the sequence and the numbers it was of."""

    rejection_id: str
    device_id: str
    kind: SequenceKind
    name: str
    first: int
    last: int
    code: str
    source_table: str
    received_at: int
    era: int = 0


class Products(msgspec.Struct):
    """Everything that one task hands back."""

    done: list[DeviceDone] = []
    needs: list[DeviceNeeds] = []
    files: list[DataFile] = []
    current: list[bytes] = []
    """The newest values of devices, as Arrow streams."""
    crowded: list[tuple[str, str]] = []
    """Lineages with more instances than are served from Postgres."""
    rejections: list[bytes] = []
    """What was refused, as Arrow streams."""
    replayed: list[bytes] = []
    """What became of replayed messages, as Arrow streams."""
    ledger: bytes = b""
    keys: dict[str, str] = {}
    sequences: list[tuple[str, SequenceChange]] = []
    """What devices changed about the gaps of their sequences."""
    rejected: list[RejectedNumbers] = []
    findings: Findings = msgspec.field(default_factory=Findings)
    staged: list[StagedSum] = []
    reviews: list[ReviewAsked] = []
    shelved: list[ShelvedSchema] = []
    """Unaccepted schemas that states have no room for."""
    accepted: list[PolicyAcceptance] = []
    """Schemas that policies accepted."""
    claims: list[Claim] = []
    """What those say of the device tables of projects."""
    resumed: list[tuple[str, str]] = []
    """Lineages whose devices went back to an accepted schema."""
    pauses: list[LineagePaused] = []
    failure: TaskFailed | None = None


def rejected_numbers(refused: RefusedBatch) -> RejectedNumbers:
    """The numbers that a rejected batch was of."""
    rejected = refused.rejected
    rejection, arrival = rejected.rejection, rejected.arrival
    epoch, table = rejection.journal_epoch, rejection.source_table or ""
    first, last = rejection.numbers or (0, 0)
    return RejectedNumbers(
        rejected.rejection_id,
        arrival.device_id or "",
        SequenceKind.TELEMETRY if epoch is None else SequenceKind.ROWS,
        epoch or table,
        first,
        last,
        rejection.code.value,
        table,
        arrival.received_at,
        refused.era,
    )


_STREAMS = ("current", "rejections", "replayed")
_order_decoder = msgspec.msgpack.Decoder(WorkOrder)
_products_decoder = msgspec.msgpack.Decoder(Products)
_encoder = msgspec.msgpack.Encoder()


def encode(document: WorkOrder | Products) -> bytes:
    """An order or its products as bytes."""
    return _encoder.encode(document)


def decode_order(data: bytes) -> WorkOrder:
    """An order from its bytes."""
    return _order_decoder.decode(data)


def decode_products(data: bytes) -> Products:
    """Products from their bytes."""
    return _products_decoder.decode(data)


def in_portions(products: Products) -> Iterator[Products]:
    """Products in parts that each fit a message to the driver; joined they are the same."""
    first = {name: getattr(products, name)[:1] for name in _STREAMS}
    yield msgspec.structs.replace(products, **first)
    for name in _STREAMS:
        for stream in getattr(products, name)[1:]:
            yield msgspec.structs.replace(Products(), **{name: [stream]})


def spread(devices: Iterable[DeviceOrder], tasks: int) -> list[list[DeviceOrder]]:
    """Devices in at most so many groups of about the same size: the largest first."""
    groups: list[list[DeviceOrder]] = [[] for _ in range(tasks)]
    sizes = [0] * tasks
    for device in sorted(devices, key=lambda d: d.payload_bytes, reverse=True):
        lightest = sizes.index(min(sizes))
        groups[lightest].append(device)
        sizes[lightest] += device.payload_bytes + 1
    return [group for group in groups if group]


def with_history(
    devices: Iterable[DeviceOrder], found: Mapping[str | None, LookedUp]
) -> list[DeviceOrder]:
    """The devices that asked, each with what was found for it."""
    return [
        msgspec.structs.replace(device, history=found[device.device_id])
        for device in devices
        if device.device_id in found
    ]
