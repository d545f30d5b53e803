"""Crash points: named places at which a fault test lets a process die.

`CRASH_AT=seal.before` ends the process when it first comes to that point; `CRASH_AT=commit.after:3`
when it comes there for the third time. Nothing happens when the variable is not set.
"""

from __future__ import annotations

import os
from collections import Counter

CRASH_STATUS = 86
_visits: Counter[str] = Counter()


def crash_point(name: str) -> None:
    """Die here, at once and without clean-up, if this process was told to."""
    order = os.environ.get("CRASH_AT")
    if order is None:
        return
    point, _, visit = order.partition(":")
    _visits[name] += 1
    if point == name and _visits[name] == int(visit or 1):
        os._exit(CRASH_STATUS)


def poison() -> str | None:
    """The poison of this process: `POISON=error:WORDS` or `POISON=death:WORDS`."""
    return os.environ.get("POISON")


def swallow(payload: bytes, *, poison: str | None) -> None:
    """Fail, or die, on a message that contains the poison's words."""
    if poison is None:
        return
    effect, _, words = poison.partition(":")
    if words.encode() in payload:
        if effect == "death":
            os._exit(CRASH_STATUS)
        raise RuntimeError(f"poisoned by {words}")
