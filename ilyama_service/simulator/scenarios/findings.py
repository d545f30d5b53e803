"""What came of the messages of a scenario, compared with what had to come of them."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec

from ilyama_protocol.intake.outcomes import Outcome
from ilyama_service.simulator.scenarios.catalog import end_of
from ilyama_service.simulator.scenarios.script import Expected, Step

LINE_COLUMNS: Final = (
    "topic",
    "payload_sha256",
    "received_at",
    "segment_id",
    "position",
    "origin",
    "outcome",
    "code",
    "rows_new",
    "rows_duplicate",
    "rows_conflict",
    "rows_staged",
)
NOTHING: Final = "nothing yet"
_LIVE: Final = "live"

Line = Mapping[str, Any]


class End(msgspec.Struct, frozen=True):
    """Messages that had to come to one end and came to one, the same or another."""

    expected: str
    found: str
    messages: int
    as_expected: bool


class Findings(msgspec.Struct, frozen=True):
    """A scenario that was played, compared with the ledger."""

    scenario: str
    device: str
    messages: int
    ends: list[End]

    @property
    def is_clean(self) -> bool:
        """Whether everything came to the end that it had to come to."""
        return all(end.as_expected for end in self.ends)

    @property
    def is_complete(self) -> bool:
        """Whether everything came to any end."""
        return all(end.found != NOTHING for end in self.ends)


def compared(
    scenario: str, steps: Sequence[Step], *, device: str, lines: Iterable[Line]
) -> Findings:
    """Compare messages with the lines of the ledger, of each message in the order of arrival."""
    waiting = _by_message(lines)
    ends: Counter[tuple[str, str, bool]] = Counter()
    for step in steps:
        own = waiting.get((step.topic, payload_hash(step)))
        line = own.popleft() if own else None
        ends[end_of(step.expected), _found(line), is_as_expected(step.expected, line)] += 1
    told = [End(expected, found, count, ok) for (expected, found, ok), count in ends.items()]
    return Findings(scenario, device, len(steps), told)


def is_as_expected(expected: Expected, line: Line | None) -> bool:
    """Whether a line of the ledger says what had to come of a message."""
    if line is None or line["outcome"] not in expected.outcomes:
        return False
    if expected.code is not None:
        return bool(line["code"] == expected.code)
    rows = line["rows_new"] + line["rows_staged"], line["rows_duplicate"]
    conflicts = expected.conflicts in (None, line["rows_conflict"])
    return rows == (expected.fresh, expected.known) and conflicts


def payload_hash(step: Step) -> str:
    """The hash by which the ledger knows a payload."""
    return sha256(step.payload).hexdigest()


def _by_message(lines: Iterable[Line]) -> dict[tuple[str, str], deque[Line]]:
    live = [line for line in lines if line["origin"] == _LIVE]
    live.sort(key=lambda line: (line["received_at"], line["segment_id"], line["position"]))
    waiting: dict[tuple[str, str], deque[Line]] = {}
    for line in live:
        waiting.setdefault((line["topic"], line["payload_sha256"]), deque()).append(line)
    return waiting


def _found(line: Line | None) -> str:
    if line is None:
        return NOTHING
    if line["outcome"] == Outcome.REJECTED:
        return str(line["code"])
    counts = {
        "new": line["rows_new"],
        "staged": line["rows_staged"],
        "duplicate": line["rows_duplicate"],
        "in conflict": line["rows_conflict"],
    }
    told = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    # What is staged has its reason where a rejection has its code.
    reason = f" for {line['code']}" if line["code"] else ""
    return f"{line['outcome']}{reason}" + (f" ({told})" if told else "")
