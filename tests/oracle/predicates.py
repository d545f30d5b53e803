"""What the words of the checks mean, one value at a time."""

import math
import re
import unicodedata
from typing import Any, TypeGuard

from tests.oracle.instants import instant

_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_UUID7 = re.compile(
    r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-7[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}",
)
_HASH = re.compile(r"[0-9a-f]{64}")


def legal_table(value: object) -> bool:
    """Whether a value can be the name of a source table."""
    if not isinstance(value, str) or not 1 <= len(value) <= 128:
        return False
    return not any(unicodedata.category(character) == "Cc" for character in value)


def is_uuid(value: object) -> bool:
    """Whether a value is the text of a UUID of any version, in any case."""
    return isinstance(value, str) and _UUID.fullmatch(value) is not None


def is_uuid7(value: object) -> bool:
    """Whether a value is the text of a UUIDv7, in any case."""
    return isinstance(value, str) and _UUID7.fullmatch(value) is not None


def is_integer(value: object) -> TypeGuard[int]:
    """A number token without fraction and exponent; `true` is none."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_count(value: Any) -> bool:
    """An int64 that is not negative."""
    return is_integer(value) and 0 <= value < 2**63


def is_huge(value: Any) -> bool:
    """An integer that no int64 can hold."""
    return is_integer(value) and not -(2**63) <= value < 2**63


def is_scalar(value: object) -> bool:
    """A string, number, boolean or null."""
    return not isinstance(value, dict | list)


def is_not_a_double(value: object) -> bool:
    """NaN, an infinity, or a number that overflowed."""
    return isinstance(value, float) and not math.isfinite(value)


def is_hash(value: object) -> bool:
    """64 lower-case hex digits."""
    return isinstance(value, str) and _HASH.fullmatch(value) is not None


def is_instant(value: object) -> bool:
    """An RFC 3339 timestamp."""
    return instant(value) is not None


def is_object_or_absent(value: object) -> bool:
    """An object; for an optional member null means absent."""
    return value is None or isinstance(value, dict)


def is_array(value: object) -> bool:
    """A JSON array."""
    return isinstance(value, list)


def is_text(value: object) -> bool:
    """A JSON string."""
    return isinstance(value, str)
