"""Rehearsals: what the platform answers to messages in their order, without a platform.

Each device has the real intake engine, which remembers what came before: retries, conflicts, late
rows and sequence numbers are judged as they are when the messages of a drain are decided.
"""

from __future__ import annotations

import msgspec

from ilyama_protocol.intake.engine import Device, IntakeEngine
from ilyama_protocol.intake.outcomes import LedgerLine, Message, Outcome, Outcomes
from ilyama_protocol.intake.state import DeviceState
from ilyama_protocol.limits import DEFAULT_LIMITS, Limits
from ilyama_protocol.topics import kind_of, parse_topic

DEFAULT_ROOT = "acme/dev-1"
_SEGMENT = "rehearsal"
_FIRST_ARRIVAL_US = 1_777_366_800_000_000
_SECOND_US = 1_000_000


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one message.

    Attributes:
        outcome: What the ledger says of it.
        code: Why it was rejected, or staged.
        json_path: The first offending place of a rejection.
        message: One sentence about it, of a rejection or of a message set aside.
        action: What its sender should do.
        source_table: The table it counts under.
        batch_id: Its batch id, in lower case.
        rows_received: How many rows it has.
        rows_new: How many of them are kept.
        rows_duplicate: How many were known before, those in conflict included.
        rows_conflict: How many have other content than came first under their key.
        rows_below_floor: How many are older than what retention has dropped.
        rows_rejected: How many were refused with it.
        rows_staged: How many are kept and wait.
        rows_late: How many are older than a change of their row that came before them.
    """

    outcome: Outcome
    code: str | None = None
    json_path: str | None = None
    message: str | None = None
    action: str | None = None
    source_table: str | None = None
    batch_id: str | None = None
    rows_received: int = 0
    rows_new: int = 0
    rows_duplicate: int = 0
    rows_conflict: int = 0
    rows_below_floor: int = 0
    rows_rejected: int = 0
    rows_staged: int = 0
    rows_late: int = 0

    @property
    def is_sound(self) -> bool:
        """Whether the sender has nothing to repair: not rejected, and in conflict with nothing."""
        return self.outcome is not Outcome.REJECTED and not self.rows_conflict

    @property
    def sentence(self) -> str:
        """The answer in one line."""
        if self.outcome is Outcome.REJECTED:
            return f"rejected, {self.code} at {self.json_path}"
        counts = {
            "new": self.rows_new,
            "late": self.rows_late,
            "duplicate": self.rows_duplicate,
            "in conflict": self.rows_conflict,
            "below the floor": self.rows_below_floor,
            "staged": self.rows_staged,
        }
        told = [f"{count} {word}" for word, count in counts.items() if count]
        rows = f", {self.rows_received} rows: {', '.join(told)}" if told else ""
        reason = f" for {self.code}" if self.code else ""
        return f"{self.outcome}{reason}{rows}"


class Rehearsal:
    """Takes messages in order and answers each as the platform would.

    A topic is a full one, or the part after the root of a device, which is then `root`.
    """

    def __init__(self, root: str = DEFAULT_ROOT, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self._root = root
        self._limits = limits
        self._engines: dict[str | None, IntakeEngine] = {}
        self._taken = 0

    def publish(self, topic: str, payload: bytes, *, registered: bool = True) -> Answer:
        """Take the next message; it arrives a second after the one before."""
        full = topic if kind_of(topic) is None else f"{self._root}/{topic}"
        engine = self._engine(parse_topic(full).own_device_id if registered else None)
        arrived_at = _FIRST_ARRIVAL_US + self._taken * _SECOND_US
        engine.decide(Message(_SEGMENT, self._taken, full, payload, arrived_at))
        self._taken += 1
        return _answer(engine.decisions.release())

    def _engine(self, device_id: str | None) -> IntakeEngine:
        engine = self._engines.get(device_id)
        if engine is None:
            engine = IntakeEngine(Device(device_id), DeviceState(), limits=self._limits)
            self._engines[device_id] = engine
        return engine


def _answer(decided: Outcomes) -> Answer:
    [line] = decided.ledger
    told: dict[str, str | None] = {}
    if decided.rejected:
        [rejected] = decided.rejected
        rejection = rejected.rejection
        told = {
            "json_path": rejection.json_path,
            "message": rejection.message,
            "action": rejection.action.value,
        }
    late = sum(len(rows.late) for rows in decided.accepted)
    return msgspec.convert(_counted(line) | told | {"rows_late": late}, Answer)


def _counted(line: LedgerLine) -> dict[str, str | int | None]:
    """What a ledger line says of its message."""
    kept = ("outcome", "code", "source_table", "batch_id")
    names = [name for name in line.__struct_fields__ if name in kept or name.startswith("rows_")]
    return {name: getattr(line, name) for name in names}
