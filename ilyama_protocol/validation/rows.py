"""Checks 13 and 14: the rows of a row batch.

The fault of a part has a path and a sentence relative to that part: `.pk`, "is empty".
"""

from typing import Any

from ilyama_protocol.jsontext import first_path, may_exceed_int64, path_to
from ilyama_protocol.limits import INT64_MAX, INT64_MIN
from ilyama_protocol.validation.cases import Case, Fault
from ilyama_protocol.validation.envelopes import is_sequence_number

OPERATIONS = frozenset({"insert", "update", "delete"})


def invalid_row(case: Case) -> Fault | None:
    """Check 13: every row is a well-formed change."""
    may_hold_big_integers = may_exceed_int64(case.payload)
    for index, row in enumerate(case.rows):
        fault = _row_fault(row)
        if fault is None and may_hold_big_integers:
            fault = big_integer_fault(row, "pk") or big_integer_fault(row, "row")
        if fault is not None:
            return fault.below(f"$.rows[{index}]")
    return None


def commit_seq_range_mismatch(case: Case) -> Fault | None:
    """Check 14: the envelope names the lowest and the highest `commit_seq`."""
    numbers = [row["commit_seq"] for row in case.rows]
    for name, extreme, word in (
        ("first_commit_seq", min(numbers), "lowest"),
        ("last_commit_seq", max(numbers), "highest"),
    ):
        if case.document[name] != extreme:
            return Fault(f"$.{name}", f"{name} must be {extreme}, the {word} commit_seq of rows")
    return None


def scalars_fault(row: dict[str, Any], name: str, *, what: str) -> Fault | None:
    """Return what keeps a member from being an object of scalars that is not empty."""
    values = row.get(name)
    if not isinstance(values, dict):
        return Fault(f".{name}", f"is not an object; send {what} as an object of scalars")
    if not values:
        return Fault(f".{name}", f"is empty; send {what} as an object of scalars")
    for column, value in values.items():
        if isinstance(value, dict | list):
            place = path_to(f".{name}", column)
            return Fault(place, f"is not a scalar; send {what} as an object of scalars")
    return None


def big_integer_fault(row: dict[str, Any], name: str) -> Fault | None:
    """Return the first integer beyond 64 bits in a member."""
    place = first_path(row.get(name), _is_big_integer, below=f".{name}")
    if place is None:
        return None
    return Fault(place, "does not fit 64 bits; send it as a text or as a real number")


def _row_fault(row: Any) -> Fault | None:
    if not isinstance(row, dict):
        return Fault("", "is not an object; send commit_seq, op, pk and row")
    op = row.get("op")
    if not isinstance(op, str) or op not in OPERATIONS:
        return Fault(".op", 'must be "insert", "update" or "delete"')
    return (
        scalars_fault(row, "pk", what="the primary key")
        or _content_fault(row.get("row"), op)
        or _commit_seq_fault(row.get("commit_seq"))
    )


def _content_fault(content: Any, op: str) -> Fault | None:
    if op != "delete" and not isinstance(content, dict):
        return Fault(".row", f"must be an object for an {op}; send the whole row")
    if op == "delete" and content is not None:
        return Fault(".row", "must be null for a delete; pk alone says which row is gone")
    return None


def _commit_seq_fault(number: Any) -> Fault | None:
    if is_sequence_number(number):
        return None
    return Fault(".commit_seq", f"must be an integer from 0 to {INT64_MAX}")


def _is_big_integer(value: Any) -> bool:
    return type(value) is int and not INT64_MIN <= value <= INT64_MAX
