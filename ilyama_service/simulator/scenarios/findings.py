"""What came of the messages of a scenario, compared with what had to come of them."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

import msgspec

from ilyama_protocol.intake.conflicts import ConflictKind
from ilyama_protocol.intake.outcomes import Outcome
from ilyama_protocol.topics import MessageKind, parse_topic
from ilyama_service.simulator.scenarios.expected import Expected
from ilyama_service.simulator.scenarios.script import Missing, Step

LINE_COLUMNS: Final = (
    "topic",
    "payload_sha256",
    "received_at",
    "segment_id",
    "position",
    "drain_id",
    "origin",
    "outcome",
    "code",
    "rows_new",
    "rows_duplicate",
    "rows_conflict",
    "rows_staged",
)
CHANGE_COLUMNS: Final = ("segment_id", "position", "late")
CONFLICT_COLUMNS: Final = ("device_id", "source_table", "kind", "key", "other")
NOTHING: Final = "nothing yet"
_LIVE: Final = "live"

Line = Mapping[str, Any]


class Evidence(NamedTuple):
    """What the platform holds of the devices of a scenario.

    `lines` are those of the ledger, `changes` the rows that are kept or wait, `conflicts` the key
    conflicts that are listed, `missing` the gaps.
    """

    lines: Sequence[Line] = ()
    changes: Iterable[Line] = ()
    conflicts: Iterable[Line] = ()
    missing: Iterable[Missing] = ()

    @property
    def decided_by(self) -> int:
        """The last drain that decided any of the messages; only a closed one is all there."""
        return max((line["drain_id"] for line in self.lines), default=0)


class End(msgspec.Struct, frozen=True):
    """Messages that had to come to one end and came to one, the same or another."""

    expected: str
    found: str
    messages: int
    as_expected: bool


class Listing(msgspec.Struct, frozen=True):
    """What the platform had to list beside the ledger, and what it lists."""

    what: str
    expected: str
    found: str
    as_expected: bool


class Findings(msgspec.Struct, frozen=True):
    """A scenario that was played, compared with what the platform holds."""

    scenario: str
    device: str
    messages: int
    ends: list[End]
    listings: list[Listing] = []

    @property
    def is_clean(self) -> bool:
        """Whether everything came to the end that it had to come to."""
        return not self.surprises

    @property
    def is_complete(self) -> bool:
        """Whether everything that is waited for came to any end."""
        return not self.undecided

    @property
    def is_wrong(self) -> bool:
        """Whether something came to another end than it had to come to."""
        wrong = [told for told in self.surprises if told.found != NOTHING]
        # What is listed may be short of messages that are not drained yet.
        return any(isinstance(told, End) or self.is_complete for told in wrong)

    @property
    def surprises(self) -> list[End | Listing]:
        """What is not as it had to be."""
        told: list[End | Listing] = [*self.ends, *self.listings]
        return [each for each in told if not each.as_expected]

    @property
    def undecided(self) -> int:
        """How many messages have come to no end yet."""
        return sum(end.messages for end in self.ends if end.found == NOTHING)


def compared(
    scenario: str,
    steps: Sequence[Step],
    evidence: Evidence,
    *,
    device: str,
    missing: Iterable[Missing] = (),
) -> Findings:
    """Compare messages with the lines of the ledger, of each message in the order of arrival."""
    waiting = _by_message(evidence)
    ends: Counter[tuple[str, str, bool]] = Counter()
    for step in steps:
        own = waiting.get((step.topic, payload_hash(step)))
        line = own.popleft() if own else None
        found = _found(line) if line or step.expected.outcome else step.expected.told
        ends[step.expected.told, found, is_as_expected(step.expected, line)] += 1
    told = [End(expected, found, count, ok) for (expected, found, ok), count in ends.items()]
    listings = [_conflicts(steps, evidence), _gaps({*missing}, evidence)]
    return Findings(scenario, device, len(steps), told, [each for each in listings if each])


def is_as_expected(expected: Expected, line: Line | None) -> bool:
    """Whether a line of the ledger, with its late rows, says what had to come of a message."""
    if line is None or expected.outcome is None:
        return line is None and expected.outcome is None
    if line["outcome"] != expected.outcome or line["code"] != (expected.code or expected.reason):
        return False
    if expected.code is not None:
        return True
    rows_new, rows_staged = expected.fresh, 0
    if expected.outcome is Outcome.STAGED:
        rows_new, rows_staged = rows_staged, rows_new
    wanted = {
        "rows_new": rows_new,
        "rows_staged": rows_staged,
        "rows_duplicate": expected.known,
        "rows_conflict": expected.conflicts,
        "rows_late": expected.late,
    }
    return {name: line[name] for name in wanted} == wanted


def payload_hash(step: Step) -> str:
    """The hash by which the ledger knows a payload."""
    return sha256(step.payload).hexdigest()


def _conflicts(steps: Sequence[Step], evidence: Evidence) -> Listing | None:
    """The contents that are listed as conflicts; sent again, one is still the same."""
    sent = {(step.topic, step.payload): step for step in steps if step.expected.conflicts}
    expected = sum(_contents_in_conflict(step) for step in sent.values())
    listed = [each for each in evidence.conflicts if each["kind"] != ConflictKind.DATAPOINT]
    found = len({tuple(each[name] for name in CONFLICT_COLUMNS) for each in listed})
    if not (expected or found):
        return None
    return Listing("key conflicts", f"{expected:,}", f"{found:,}", as_expected=expected == found)


def _contents_in_conflict(step: Step) -> int:
    """Of telemetry the content of a batch id is one, whatever its samples."""
    is_telemetry = parse_topic(step.topic).kind is MessageKind.TELEMETRY
    return 1 if is_telemetry else step.expected.conflicts


def _gaps(missing: set[Missing], evidence: Evidence) -> Listing | None:
    found = {*evidence.missing}
    if not (missing or found):
        return None
    return Listing("gaps", _ranges(missing), _ranges(found), as_expected=missing == found)


def _ranges(missing: Iterable[Missing]) -> str:
    told = [f"{gap.first} to {gap.last}" for gap in sorted(missing)]
    return ", ".join(told) or "none"


def _by_message(evidence: Evidence) -> dict[tuple[str, str], deque[Line]]:
    late = Counter(_place(row) for row in evidence.changes if row["late"])
    live = [line for line in evidence.lines if line["origin"] == _LIVE]
    live.sort(key=lambda line: (line["received_at"], *_place(line)))
    waiting: dict[tuple[str, str], deque[Line]] = {}
    for line in live:
        whole = {**line, "rows_late": late[_place(line)]}
        waiting.setdefault((line["topic"], line["payload_sha256"]), deque()).append(whole)
    return waiting


def _place(row: Line) -> tuple[str, int]:
    return row["segment_id"], row["position"]


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
        "late": line["rows_late"],
    }
    told = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    # What is staged has its reason where a rejection has its code.
    reason = f" for {line['code']}" if line["code"] else ""
    return f"{line['outcome']}{reason}" + (f" ({told})" if told else "")
