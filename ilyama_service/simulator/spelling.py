"""JSON text by hand, so that a value can be spelled in ways no library would choose."""

import json
import random
from dataclasses import dataclass
from typing import Any

_SPACES = ("", "", " ", "\n", "\t", " \r\n ")


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of JSON text that is written as it is, legal or not."""

    text: str


def compact(value: Any) -> str:
    """The shortest spelling, with tokens as they are."""
    if isinstance(value, Token):
        return value.text
    if isinstance(value, dict):
        return "{" + ",".join(f"{_text(k)}:{compact(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(compact, value)) + "]"
    return _text(value)


def respelled(value: Any, rng: random.Random) -> str:
    """The same value with other white space, key order, escapes and exponents."""
    space = rng.choice(_SPACES)
    if isinstance(value, dict):
        members = [
            f"{_escaped(name, rng)}{space}:{space}{respelled(member, rng)}"
            for name, member in rng.sample(sorted(value.items()), len(value))
        ]
        return "{" + space + f"{space},".join(members) + space + "}"
    if isinstance(value, list):
        return "[" + f",{space}".join(respelled(item, rng) for item in value) + space + "]"
    if isinstance(value, str):
        return _escaped(value, rng)
    if isinstance(value, float):
        return rng.choice([repr(value), f"{value:.17e}", f"{value:.20E}"])
    return rng.choice(("0", "-0")) if _is_zero(value) else compact(value)


def _is_zero(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value == 0


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _escaped(text: str, rng: random.Random) -> str:
    return '"' + "".join(_character(character, rng) for character in text) + '"'


def _character(character: str, rng: random.Random) -> str:
    if rng.random() < 0.3:
        return json.dumps(character)[1:-1] if character > "~" else f"\\u{ord(character):04X}"
    return "\\/" if character == "/" else _text(character)[1:-1]
