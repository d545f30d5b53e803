"""A strict JSON reader whose objects remember the text they were sent as."""

import math
import re
from typing import Any

MAX_DEPTH = 32

_SPACE = re.compile(r"[ \t\n\r]*")
_COMMA = re.compile(r"[ \t\n\r]*,[ \t\n\r]*")
_END_OF_OBJECT = re.compile(r"[ \t\n\r]*\}")
_END_OF_ARRAY = re.compile(r"[ \t\n\r]*\]")
_END_OF_TEXT = re.compile(r"[ \t\n\r]*\0\Z")
_QUOTED = r'"([^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*)"'
_STRING = re.compile(_QUOTED)
_NAME = re.compile(_QUOTED + r"[ \t\n\r]*:[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WORD = re.compile(r"true|false|null|NaN|Infinity|-Infinity")
_WORDS: dict[str, Any] = {
    "true": True,
    "false": False,
    "null": None,
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
}
_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.",
)
_SHORT_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class NotJson(ValueError):
    """The bytes are not one JSON object as the protocol understands it."""


class SourceObject(dict[str, Any]):
    """A JSON object together with its text, exactly as it was sent."""

    __slots__ = ("source",)
    source: str


def scan(payload: bytes) -> SourceObject:
    """Read one JSON object from UTF-8 bytes.

    Integers stay integers, every other number is a double; a number that no double can hold
    comes back as infinity, so that the caller can tell it from a syntax error.

    Raises:
        NotJson: for anything else than one well-formed object without duplicate keys.
    """
    try:
        text = payload.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotJson(str(error)) from error
    document = _Scanner(text).document()
    if not isinstance(document, SourceObject):
        raise NotJson("the top level is not an object")
    return document


class _Scanner:
    def __init__(self, text: str) -> None:
        # U+0000 is no token of JSON: it ends the text, so that no index can run off it.
        self._text = text + "\0"
        self._at = 0

    def document(self) -> Any:
        self._took(_SPACE)
        value = self._value(0)
        self._need(_END_OF_TEXT)
        return value

    def _value(self, depth: int) -> Any:
        head = self._text[self._at]
        if head == '"':
            return self._string(_STRING)
        if head == "{":
            return self._object(depth + 1)
        if head == "[":
            return self._array(depth + 1)
        return self._number_or_word()

    def _object(self, depth: int) -> SourceObject:
        start = self._at
        members = SourceObject()
        self._open(depth)
        more = not self._took(_END_OF_OBJECT)
        while more:
            name = self._string(_NAME)
            if name in members:
                raise NotJson(f"the key {name!r} comes twice")
            members[name] = self._value(depth)
            more = self._took(_COMMA)
            if not more:
                self._need(_END_OF_OBJECT)
        members.source = self._text[start : self._at]
        return members

    def _array(self, depth: int) -> list[Any]:
        items: list[Any] = []
        self._open(depth)
        more = not self._took(_END_OF_ARRAY)
        while more:
            items.append(self._value(depth))
            more = self._took(_COMMA)
            if not more:
                self._need(_END_OF_ARRAY)
        return items

    def _string(self, form: re.Pattern[str]) -> str:
        match = form.match(self._text, self._at)
        if match is None:
            raise NotJson(f"no string at {self._at}")
        self._at = match.end()
        body = match[1]
        return _unescaped(body) if "\\" in body else body

    def _number_or_word(self) -> Any:
        number = _NUMBER.match(self._text, self._at)
        match = number or _WORD.match(self._text, self._at)
        if match is None:
            raise NotJson(f"no value at {self._at}")
        self._at = match.end()
        return _number(number) if number else _WORDS[match[0]]

    def _open(self, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise NotJson(f"deeper than {MAX_DEPTH} at {self._at}")
        self._at += 1
        self._took(_SPACE)

    def _took(self, mark: re.Pattern[str]) -> bool:
        match = mark.match(self._text, self._at)
        if match is not None:
            self._at = match.end()
        return match is not None

    def _need(self, mark: re.Pattern[str]) -> None:
        if not self._took(mark):
            raise NotJson(f"no {mark.pattern} at {self._at}")


def _number(match: re.Match[str]) -> int | float:
    value = float(match[0])
    is_integer = match[1] is None and match[2] is None
    return int(match[0]) if is_integer and math.isfinite(value) else value


def _unescaped(body: str) -> str:
    text = _ESCAPE.sub(_character, body)
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise NotJson("a lone surrogate")
    return text


def _character(escape: re.Match[str]) -> str:
    token = escape[0]
    if len(token) == 12:
        high, low = int(token[2:6], 16), int(token[8:12], 16)
        return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
    if len(token) == 6:
        return chr(int(token[2:6], 16))
    return _SHORT_ESCAPES.get(token[1], token[1])
