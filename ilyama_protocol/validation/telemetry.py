"""Checks 15 to 18: the rows of a telemetry batch."""

from typing import Any

from ilyama_protocol.identifiers import is_uuid
from ilyama_protocol.jsontext import may_exceed_int64
from ilyama_protocol.timestamps import parse_instant
from ilyama_protocol.validation.cases import Case, Fault
from ilyama_protocol.validation.rows import big_integer_fault, scalars_fault


def row_count_mismatch(case: Case) -> Fault | None:
    """Check 15: `row_count` is the number of rows."""
    count = len(case.rows)
    if case.document["row_count"] == count:
        return None
    return Fault("$.row_count", f"row_count must be {count}, the number of rows sent")


def invalid_row(case: Case) -> Fault | None:
    """Check 16: every row has a time and fields."""
    may_hold_big_integers = may_exceed_int64(case.payload)
    for index, row in enumerate(case.rows):
        instant, fault = _instant_or_fault(row)
        if fault is None and may_hold_big_integers:
            fault = big_integer_fault(row, "fields")
        if fault is not None:
            return fault.below(f"$.rows[{index}]")
        case.instants.append(instant)
    return None


def invalid_row_id(case: Case) -> Fault | None:
    """Check 17: a row's id, when sent, is a UUID."""
    for index, row in enumerate(case.rows):
        row_id = row.get("row_id")
        if row_id is not None and not (isinstance(row_id, str) and is_uuid(row_id)):
            fault = Fault(".row_id", "is not a UUID; send one or leave it out")
            return fault.below(f"$.rows[{index}]")
    return None


def cursor_mismatch(case: Case) -> Fault | None:
    """Check 18: the cursors are the first and the last instant of the rows."""
    for name, extreme, word in (
        ("cursor_start_ts", min(case.instants), "earliest"),
        ("cursor_end_ts", max(case.instants), "latest"),
    ):
        if parse_instant(case.document[name]) != extreme:
            ts = case.rows[case.instants.index(extreme)]["ts"]
            return Fault(f"$.{name}", f"{name} must be {ts}, the {word} ts of rows")
    return None


def _instant_or_fault(row: Any) -> tuple[int, Fault | None]:
    if not isinstance(row, dict):
        return 0, Fault("", "is not an object; send ts and fields")
    ts = row.get("ts")
    instant = parse_instant(ts) if isinstance(ts, str) else None
    if instant is None:
        return 0, Fault(".ts", "is not an RFC 3339 timestamp")
    return instant, scalars_fault(row, "fields", what="the fields")
