"""Rejections: why the platform refused a message, and what its sender should do."""

from dataclasses import dataclass
from enum import StrEnum

VALIDATOR_VERSION = "1"


class ClientAction(StrEnum):
    """What the sender of a rejected message should do."""

    FIX = "fix"
    SPLIT = "split"
    DROP = "drop"
    UPGRADE = "upgrade"


class RejectionCode(StrEnum):
    """Why a message was rejected; one code per message, in the order of the checks."""

    UNKNOWN_TOPIC = "unknown_topic"
    PAYLOAD_TOO_LARGE = "payload_too_large"
    INVALID_JSON = "invalid_json"
    INVALID_NUMBER_ENCODING = "invalid_number_encoding"
    ENVELOPE_UNSTRIPPED_TENANT_FIELDS = "envelope_unstripped_tenant_fields"
    INVALID_FORMAT_VERSION = "invalid_format_version"
    UNSUPPORTED_FORMAT_VERSION = "unsupported_format_version"
    UNSUPPORTED_CAPTURE_STRATEGY = "unsupported_capture_strategy"
    INVALID_BATCH_ID = "invalid_batch_id"
    UNREGISTERED_DEVICE = "unregistered_device"
    INVALID_ENVELOPE = "invalid_envelope"
    BATCH_TOO_MANY_ROWS = "batch_too_many_rows"
    EMPTY_BATCH = "empty_batch"
    SCHEMA_HASH_MISMATCH = "schema_hash_mismatch"
    INVALID_ROW = "invalid_row"
    COMMIT_SEQ_RANGE_MISMATCH = "commit_seq_range_mismatch"
    ROW_COUNT_MISMATCH = "row_count_mismatch"
    INVALID_ROW_ID = "invalid_row_id"
    CURSOR_TIMESTAMP_MISMATCH = "cursor_timestamp_mismatch"
    DUPLICATE_BATCH_SEQ = "duplicate_batch_seq"
    STALE_BATCH_SEQ = "stale_batch_seq"
    BELOW_FLOOR = "below_floor"

    @property
    def action(self) -> ClientAction:
        """What the sender should do about it."""
        return _OTHER_ACTIONS.get(self, ClientAction.FIX)


_OTHER_ACTIONS = {
    RejectionCode.PAYLOAD_TOO_LARGE: ClientAction.SPLIT,
    RejectionCode.BATCH_TOO_MANY_ROWS: ClientAction.SPLIT,
    RejectionCode.UNSUPPORTED_FORMAT_VERSION: ClientAction.UPGRADE,
    RejectionCode.DUPLICATE_BATCH_SEQ: ClientAction.DROP,
    RejectionCode.STALE_BATCH_SEQ: ClientAction.DROP,
    RejectionCode.BELOW_FLOOR: ClientAction.DROP,
}


@dataclass(frozen=True, slots=True)
class Rejection:
    """The answer to a message that was refused.

    Attributes:
        code: Why it was refused.
        json_path: The first offending place, `$` when it is the payload as a whole.
        message: One sentence for the firmware developer.
        source_table: The table it counts under, when its name is a legal one.
        row_count: How many rows were refused with it.
        batch_id: Its batch id in lower case, when that was found valid before the refusal.
        batch_seq: The number of a telemetry batch, when it is a legal one.
        journal_epoch: The journal of a row batch, when that and its numbers are legal.
        numbers: The first and the last number of the batch, when it is known of which sequence.
    """

    code: RejectionCode
    json_path: str
    message: str
    source_table: str | None = None
    row_count: int = 0
    batch_id: str | None = None
    batch_seq: int | None = None
    journal_epoch: str | None = None
    numbers: tuple[int, int] | None = None

    @property
    def action(self) -> ClientAction:
        """What the sender should do about it."""
        return self.code.action
