"""Sampled tables whose schema changes in the field; nothing is lost, whatever the policy does."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ilyama_protocol.fingerprint import Affinity, SchemaColumn
from ilyama_protocol.intake.lineage_rulings import StagingReason
from ilyama_protocol.rejections import RejectionCode
from ilyama_service.simulator.envelopes import Document
from ilyama_service.simulator.scenarios.expected import accepted, added, duplicate, rejected, staged
from ilyama_service.simulator.scenarios.script import SAMPLE_COLUMNS, SAMPLES, TELEMETRY, Script

_ADDED = SchemaColumn("humidity", Affinity.REAL, pk_ordinal=0, not_null=False)
_WIDER = (*SAMPLE_COLUMNS, _ADDED)
_UNKNOWN_HASH = "0" * 64


def telemetry_schema_additive(device: Script) -> None:
    """A firmware update adds a sampled column that may be null."""
    device.sends(_announced(device, SAMPLE_COLUMNS), accepted(3), on=TELEMETRY)
    wider = device.samples(columns=_WIDER, announced=True, rows=device.measured(3, humidity=0.5))
    device.sends(wider, added(3), on=TELEMETRY)


def telemetry_schema_breaking(device: Script) -> None:
    """Affinity changed, column dropped, other primary key, new column that must not be null."""
    device.sends(_announced(device, SAMPLE_COLUMNS), accepted(3), on=TELEMETRY)
    for columns in _breaking():
        device.sends(_announced(device, columns), staged(3), on=TELEMETRY)


def telemetry_schema_flip_flop(device: Script) -> None:
    """Two firmwares share a device: the schema of its samples changes with every batch."""
    device.sends(_announced(device, SAMPLE_COLUMNS), accepted(3), on=TELEMETRY)
    for turn in range(6):
        is_own = turn % 2
        columns = SAMPLE_COLUMNS if is_own else _WIDER
        waits = added(3, StagingReason.LINEAGE_PAUSED) if is_own else added(3)
        device.sends(_announced(device, columns), waits, on=TELEMETRY)


def telemetry_schema_hash_mid_stream(device: Script) -> None:
    """A hash that nobody explains comes in the middle of a stream, and goes again."""
    ends = (accepted(3), staged(3), staged(3, StagingReason.LINEAGE_PAUSED))
    hashes: tuple[Document, ...] = ({}, {"schema_hash": _UNKNOWN_HASH}, {})
    device.sends(_announced(device, SAMPLE_COLUMNS), accepted(3), on=TELEMETRY)
    for members, expected in zip(hashes, ends, strict=True):
        device.sends(device.samples(**members), expected, on=TELEMETRY)


def telemetry_schema_announced_late(device: Script) -> None:
    """The columns behind a hash come with its second batch."""
    for announced in (False, True):
        device.sends(device.samples(announced=announced), accepted(3), on=TELEMETRY)


def telemetry_schema_of_five_hundred_columns(device: Script) -> None:
    """A sampled table of two columns becomes one of five hundred."""
    device.sends(_announced(device, SAMPLE_COLUMNS), accepted(3), on=TELEMETRY)
    many = [replace(_ADDED, name=f"c{number}") for number in range(498)]
    device.sends(_announced(device, (*SAMPLE_COLUMNS, *many)), added(3), on=TELEMETRY)


def telemetry_numbers_under_review(device: Script) -> None:
    """Batches that may be staged come again, and their numbers too: they count as taken."""
    device.sends(_announced(device, SAMPLE_COLUMNS), accepted(3), on=TELEMETRY)
    waiting = _announced(device, _WIDER)
    device.sends(waiting, added(3), on=TELEMETRY)
    device.sends(waiting, duplicate(3), on=TELEMETRY)
    codes = {2: RejectionCode.DUPLICATE_BATCH_SEQ, 0: RejectionCode.STALE_BATCH_SEQ}
    for number, code in codes.items():
        device.sends(device.samples(batch_seq=number), rejected(code), on=TELEMETRY)
    device.sends(device.samples(batch_seq=3), added(3, StagingReason.LINEAGE_PAUSED), on=TELEMETRY)


def table_of_rows_and_telemetry(device: Script) -> None:
    """One table sends row changes and samples, under one schema and then under two."""
    rows = device.batch(device.changes(2), table=SAMPLES, columns=SAMPLE_COLUMNS)
    device.sends(rows, accepted(2))
    device.sends(_announced(device, SAMPLE_COLUMNS), accepted(3), on=TELEMETRY)
    device.sends(_announced(device, _WIDER), added(3), on=TELEMETRY)


def _announced(device: Script, columns: Sequence[SchemaColumn]) -> Document:
    return device.samples(columns=columns, announced=True)


def _breaking() -> Iterator[Sequence[SchemaColumn]]:
    key, celsius = SAMPLE_COLUMNS
    yield key, replace(celsius, decl_type_affinity=Affinity.TEXT)
    yield (key,)
    yield replace(key, pk_ordinal=0), replace(celsius, pk_ordinal=1)
    yield key, celsius, replace(_ADDED, not_null=True)


TELEMETRY_SCHEMAS = (
    telemetry_schema_additive,
    telemetry_schema_breaking,
    telemetry_schema_flip_flop,
    telemetry_schema_hash_mid_stream,
    telemetry_schema_announced_late,
    telemetry_schema_of_five_hundred_columns,
    telemetry_numbers_under_review,
    table_of_rows_and_telemetry,
)
