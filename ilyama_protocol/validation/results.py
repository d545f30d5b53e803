"""Results: a case that passed every check, turned into its message."""

from array import array
from typing import Any

from ilyama_protocol.contents import MixedContents
from ilyama_protocol.messages import (
    Acknowledgement,
    IngestRequest,
    Message,
    Observation,
    RequestKind,
    RowBatch,
    SegmentKind,
    TelemetryBatch,
)
from ilyama_protocol.timestamps import instant_of, microseconds
from ilyama_protocol.topics import MessageKind
from ilyama_protocol.validation.cases import Case
from ilyama_protocol.validation.schemas import SchemaFault, declared_columns
from ilyama_protocol.validation.texts import field_texts, row_texts


def message_of(case: Case) -> Message:
    """Return the message of a case that passed every check."""
    if case.kind is MessageKind.ROWS:
        return _row_batch(case)
    if case.kind is MessageKind.TELEMETRY:
        return _telemetry_batch(case)
    if case.kind is MessageKind.OBSERVE:
        return _observation(case.document)
    if case.kind is MessageKind.ACK:
        return Acknowledgement(case.document["control_id"])
    return _request(case.document)


def _row_batch(case: Case) -> RowBatch:
    document, rows = case.document, case.rows
    op = [row["op"] for row in rows]
    texts = row_texts(case.payload, op)
    return RowBatch(
        batch_id=document["batch_id"].lower(),
        journal_epoch=document["journal_epoch"].lower(),
        source_table=document["source_table"],
        schema_hash=document["schema_hash"],
        first_commit_seq=document["first_commit_seq"],
        last_commit_seq=document["last_commit_seq"],
        schema_columns=case.schema_columns,
        commit_seq=array("q", [row["commit_seq"] for row in rows]),
        op=op,
        pk_text=texts.pk,
        row_text=texts.row,
        contents=MixedContents([row.get("row") for row in rows]),
    )


def _telemetry_batch(case: Case) -> TelemetryBatch:
    document, rows = case.document, case.rows
    return TelemetryBatch(
        batch_id=document["batch_id"].lower(),
        batch_seq=document["batch_seq"],
        source_table=document["source_table"],
        schema_hash=document["schema_hash"],
        cursor_start_us=microseconds(min(case.instants)),
        cursor_end_us=microseconds(max(case.instants)),
        schema_columns=case.schema_columns,
        ts_us=array("q", map(microseconds, case.instants)),
        row_id=row_ids([row.get("row_id") for row in rows]),
        fields_text=field_texts(case.payload),
        contents=MixedContents([row["fields"] for row in rows]),
    )


def row_ids(sent: list[str | None]) -> list[str | None] | None:
    """Return the ids of rows in lower case, None when no row has one."""
    if sent.count(None) == len(sent):
        return None
    return [row_id and row_id.lower() for row_id in sent]


def _observation(document: dict[str, Any]) -> Observation:
    try:
        columns = declared_columns(document)
    except SchemaFault:
        columns = None
    return Observation(
        source_table=document["source_table"],
        schema_hash=document["schema_hash"],
        observed_at_us=microseconds(instant_of(document["observed_at"])),
        schema_columns=columns,
    )


def _request(document: dict[str, Any]) -> IngestRequest:
    request_kind = RequestKind(document["request_kind"])
    finalizes = request_kind is RequestKind.FINALIZE
    return IngestRequest(
        request_kind=request_kind,
        source_table=document["source_table"],
        batch_id=document["batch_id"].lower() if finalizes else None,
        segment_kind=SegmentKind(document["segment_kind"]) if finalizes else None,
    )
