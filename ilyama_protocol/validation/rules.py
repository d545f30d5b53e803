"""The rule table: every check in its order, with the code of the one that fails first."""

from collections.abc import Callable
from typing import NamedTuple

from ilyama_protocol.rejections import Rejection, RejectionCode
from ilyama_protocol.topics import MessageKind
from ilyama_protocol.validation import envelopes, payloads, rows, schemas, telemetry
from ilyama_protocol.validation.cases import Case, Fault

ROWS = frozenset({MessageKind.ROWS})
TELEMETRY = frozenset({MessageKind.TELEMETRY})
BATCHES = ROWS | TELEMETRY
ALL = BATCHES | {MessageKind.OBSERVE, MessageKind.ACK, MessageKind.REQUEST}


class Rule(NamedTuple):
    """One check: its number, the kinds it applies to, its code, and what finds the fault."""

    number: int
    kinds: frozenset[MessageKind]
    code: RejectionCode
    fault_of: Callable[[Case], Fault | None]


_ = RejectionCode
RULES = (
    Rule(0, ALL, _.UNKNOWN_TOPIC, payloads.unknown_topic),
    Rule(1, ALL, _.PAYLOAD_TOO_LARGE, payloads.payload_too_large),
    Rule(2, ALL, _.INVALID_JSON, payloads.invalid_json),
    Rule(3, ALL, _.INVALID_NUMBER_ENCODING, payloads.invalid_number),
    Rule(4, ALL, _.ENVELOPE_UNSTRIPPED_TENANT_FIELDS, envelopes.tenant_field),
    Rule(5, ALL, _.INVALID_FORMAT_VERSION, envelopes.invalid_format_version),
    Rule(6, ALL, _.UNSUPPORTED_FORMAT_VERSION, envelopes.unsupported_format_version),
    Rule(7, BATCHES, _.UNSUPPORTED_CAPTURE_STRATEGY, envelopes.unsupported_capture_strategy),
    Rule(8, BATCHES, _.INVALID_BATCH_ID, envelopes.invalid_batch_id),
    Rule(9, ALL, _.UNREGISTERED_DEVICE, envelopes.unregistered_device),
    Rule(10, ALL, _.INVALID_ENVELOPE, envelopes.invalid_envelope),
    Rule(11, BATCHES, _.BATCH_TOO_MANY_ROWS, envelopes.too_many_rows),
    Rule(11, BATCHES, _.EMPTY_BATCH, envelopes.empty_batch),
    Rule(12, BATCHES, _.SCHEMA_HASH_MISMATCH, schemas.schema_mismatch),
    Rule(13, ROWS, _.INVALID_ROW, rows.invalid_row),
    Rule(14, ROWS, _.COMMIT_SEQ_RANGE_MISMATCH, rows.commit_seq_range_mismatch),
    Rule(15, TELEMETRY, _.ROW_COUNT_MISMATCH, telemetry.row_count_mismatch),
    Rule(16, TELEMETRY, _.INVALID_ROW, telemetry.invalid_row),
    Rule(17, TELEMETRY, _.INVALID_ROW_ID, telemetry.invalid_row_id),
    Rule(18, TELEMETRY, _.CURSOR_TIMESTAMP_MISMATCH, telemetry.cursor_mismatch),
)
_RULES_OF: dict[MessageKind | None, tuple[Rule, ...]] = {
    kind: tuple(rule for rule in RULES if kind in rule.kinds) for kind in ALL
}
_LAST_RULE_WITHOUT_TABLE = 3
_LAST_RULE_WITHOUT_BATCH_ID = 8


def rejection_of(case: Case) -> Rejection | None:
    """Return the rejection that the first failing rule gives, None when all of them pass."""
    for rule in _RULES_OF.get(case.kind, RULES[:1]):
        if (fault := rule.fault_of(case)) is not None:
            return _rejection(case, rule, fault)
    return None


def _rejection(case: Case, rule: Rule, fault: Fault) -> Rejection:
    if rule.number <= _LAST_RULE_WITHOUT_TABLE:
        return Rejection(rule.code, fault.json_path, fault.message)
    table, sent_rows = case.document.get("source_table"), case.document.get("rows")
    has_batch_id = case.kind in BATCHES and rule.number > _LAST_RULE_WITHOUT_BATCH_ID
    batch_seq, epoch, numbers = _numbers(case)
    return Rejection(
        rule.code,
        fault.json_path,
        fault.message,
        source_table=table if envelopes.is_table_name(table) else None,
        row_count=len(sent_rows) if isinstance(sent_rows, list) else 0,
        batch_id=case.document["batch_id"].lower() if has_batch_id else None,
        batch_seq=batch_seq,
        journal_epoch=epoch,
        numbers=numbers,
    )


def _numbers(case: Case) -> tuple[int | None, str | None, tuple[int, int] | None]:
    """Return the number, the journal and the range of numbers of a batch, where they are legal.

    Whatever else is wrong with it, a gap that the batch would have closed is explained by it.
    """
    member = case.document.get
    if case.kind is MessageKind.TELEMETRY and envelopes.is_sequence_number(
        seq := member("batch_seq")
    ):
        return seq, None, (seq, seq) if envelopes.is_table_name(member("source_table")) else None
    epoch, first, last = map(member, ("journal_epoch", "first_commit_seq", "last_commit_seq"))
    if (
        case.kind is MessageKind.ROWS
        and envelopes.is_time_ordered_id(epoch)
        and envelopes.is_sequence_number(first)
        and envelopes.is_sequence_number(last)
    ):
        return None, epoch.lower(), (min(first, last), max(first, last))
    return None, None, None
