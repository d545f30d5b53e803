"""Strict JSON text: what a payload must be before anybody looks at its meaning.

`NaN`, `Infinity`, `-Infinity` and numbers that overflow a double are read as floats that are not
finite, and `first_number_not_finite` finds them; `-0` is the integer 0.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Callable
from itertools import accumulate
from typing import Any

import orjson

from ilyama_protocol.limits import MAX_DEPTH

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BRACKETS_AND_QUOTES = b'[]{}"'
_ALL_OTHER_BYTES = bytes(set(range(256)) - set(_BRACKETS_AND_QUOTES))
_QUOTED = re.compile(rb'"[^"]*"')
_STEP_OF_BRACKET = {**dict.fromkeys(b"[{", 1), **dict.fromkeys(b"]}", -1), ord('"'): 0}
_DIGITS_AS_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_INTEGER_BEYOND_INT64 = b"0" * 19
_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# An integer of at most 308 digits fits a double; longer ones must be looked at.
_SURELY_FINITE_DIGITS = 308
_SHOWN_CHARACTERS = 60


class JsonTextError(ValueError):
    """The bytes are not one JSON object as the wire contract wants it."""


def parse_object(payload: bytes) -> dict[str, Any]:
    """Parse one JSON object.

    Raises:
        JsonTextError: The payload is no UTF-8, has a byte order mark, a syntax error, a key
            twice in one object, a lone surrogate, is too deep, or is not an object.
    """
    if _is_too_deep(payload):
        raise JsonTextError(f"the JSON is nested deeper than {MAX_DEPTH} levels; flatten it")
    document = _round_tripped(payload) or _parsed(_decoded(payload))
    if not isinstance(document, dict):
        raise JsonTextError("the payload is not a JSON object; send one object per message")
    return document


def first_path(value: Any, is_wanted: Callable[[Any], bool], *, below: str = "$") -> str | None:
    """Return the path of the first scalar, in document order, that is wanted."""
    steps = _steps_back_from(value, is_wanted)
    if steps is None:
        return None
    path = below
    for step in reversed(steps):
        path = path_to(path, step)
    return path


def first_number_not_finite(document: dict[str, Any], payload: bytes) -> str | None:
    """Return the path of the first number that a double cannot hold, in a parsed payload."""
    try:
        orjson.loads(payload)
    except orjson.JSONDecodeError:
        return first_path(document, _is_not_finite)
    # It takes finite numbers only, and answers before a walk has begun.
    return None


def may_exceed_int64(payload: bytes) -> bool:
    """Tell whether a payload has digits enough for an integer beyond int64; often it has not."""
    return _INTEGER_BEYOND_INT64 in payload.translate(_DIGITS_AS_ZEROS)


def path_to(parent: str, step: str | int) -> str:
    """Return the path of a member or an element; odd names are quoted: `$["odd name"]`."""
    if isinstance(step, int):
        return f"{parent}[{step}]"
    if _PLAIN_NAME.fullmatch(step):
        return f"{parent}.{step}"
    return f"{parent}[{json.dumps(step, ensure_ascii=False)}]"


def shown(value: Any) -> str:
    """Return a scalar as a sentence shows it: as JSON, and cut when it is very long."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _decoded(payload: bytes) -> str:
    if payload.startswith(_BYTE_ORDER_MARK):
        raise JsonTextError("the payload starts with a byte order mark; send UTF-8 without one")
    try:
        return payload.decode()
    except UnicodeDecodeError as error:
        raise JsonTextError(f"byte {error.start} is not UTF-8; send the text in UTF-8") from None


def _is_too_deep(payload: bytes) -> bool:
    # Counted before parsing, so that no payload can exhaust the parser's stack. On a text that
    # is no JSON the count means nothing, but such a text is refused either way.
    if payload.count(b"{") + payload.count(b"[") <= MAX_DEPTH:
        return False
    depths = accumulate(map(_STEP_OF_BRACKET.__getitem__, _brackets_outside_strings(payload)))
    return max(depths, default=0) > MAX_DEPTH


def _brackets_outside_strings(payload: bytes) -> bytes:
    if b"\\" in payload:
        payload = payload.replace(b"\\\\", b"").replace(b'\\"', b"")
    brackets = payload.translate(None, delete=_ALL_OTHER_BYTES).replace(b'""', b"")
    return _QUOTED.sub(b"", brackets) if b'"' in brackets else brackets


def _round_tripped(payload: bytes) -> Any:
    # A text that comes back byte by byte has lost no key, no digit and no character.
    try:
        document = orjson.loads(payload)
    except orjson.JSONDecodeError:
        return None
    return document if orjson.dumps(document) == payload else None


def _parsed(text: str) -> Any:
    try:
        document = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        reason = error.msg[:1].lower() + error.msg[1:]
        raise JsonTextError(f"the JSON breaks at character {error.pos}: {reason}") from None
    if _SURROGATE_ESCAPE.search(text) and _has_lone_surrogate(document):
        raise JsonTextError("a string holds half of a surrogate pair; send whole characters")
    return document


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        times = Counter(name for name, _ in pairs)
        twice = next(name for name in members if times[name] > 1)
        raise JsonTextError(f"the key {shown(twice)} appears twice in one object; send it once")
    return members


def _integer(token: str) -> int | float:
    if len(token) <= _SURELY_FINITE_DIGITS:
        return int(token)
    number = float(token)
    return number if math.isinf(number) else int(token)


def _has_lone_surrogate(value: Any) -> bool:
    if isinstance(value, str):
        return _SURROGATE.search(value) is not None
    if isinstance(value, dict):
        return any(map(_has_lone_surrogate, value)) or _has_lone_surrogate([*value.values()])
    return isinstance(value, list) and any(map(_has_lone_surrogate, value))


def _is_not_finite(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _steps_back_from(value: Any, is_wanted: Callable[[Any], bool]) -> list[str | int] | None:
    if isinstance(value, dict):
        parts: Any = value.items()
    elif isinstance(value, list):
        parts = enumerate(value)
    else:
        return [] if is_wanted(value) else None
    for step, part in parts:
        if isinstance(part, dict | list):
            steps = _steps_back_from(part, is_wanted)
            if steps is not None:
                return [*steps, step]
        elif is_wanted(part):
            return [step]
    return None


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=_integer)
