"""A device that does as it is told, and writes down what must come of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from ilyama_protocol.fingerprint import SchemaColumn, schema_hash
from ilyama_protocol.governance.policies import Policy
from ilyama_protocol.intake.lineage_rulings import FAILURES_THAT_OPEN_THE_CIRCUIT
from ilyama_protocol.intake.outcomes import Outcome
from ilyama_protocol.intake.sequences import SequenceKind
from ilyama_protocol.limits import DEFAULT_LIMITS, Limits
from ilyama_protocol.topics import SYNC_PATHS, MessageKind
from ilyama_service.simulator.envelopes import Document, row_batch, telemetry_batch, uuid7
from ilyama_service.simulator.messages import Change
from ilyama_service.simulator.scenarios.expected import Expected
from ilyama_service.simulator.source_tables import columns_of, declaration, rfc3339
from ilyama_service.simulator.spelling import compact

ROWS, TELEMETRY, OBSERVE, ACK, REQUEST = (
    {kind: path for path, kind in SYNC_PATHS.items()}[kind]
    for kind in (
        MessageKind.ROWS,
        MessageKind.TELEMETRY,
        MessageKind.OBSERVE,
        MessageKind.ACK,
        MessageKind.REQUEST,
    )
)
TABLE: Final = "pump"
COLUMNS: Final = columns_of("id INTEGER", "state TEXT", "rpm REAL")
SAMPLES: Final = "temperature"
SAMPLE_COLUMNS: Final = columns_of("ts TEXT", "celsius REAL")
_SPRING_2026_MS: Final = 1_777_366_800_000

PolicyOf = Callable[[str], Policy]
"""The policy that holds for a table."""


class Missing(NamedTuple):
    """Numbers of a sequence that never come, and are listed as a gap."""

    kind: SequenceKind
    first: int
    last: int


class Step(msgspec.Struct, frozen=True):
    """One message of a scenario, and what must come of it."""

    topic: str
    payload: bytes
    expected: Expected
    registered: bool = True

    @property
    def source_table(self) -> str | None:
        """The table that the message says it is of."""
        return _NAMING.decode(self.payload).source_table

    def under(self, policy_of: PolicyOf) -> Step:
        """The same where policies hold; only what may be staged is asked for its table."""
        if self.expected.outcome not in (Outcome.ACCEPTED, Outcome.STAGED):
            return self
        policy = policy_of(self.source_table or "")
        return msgspec.structs.replace(self, expected=self.expected.under(policy))


class _Naming(msgspec.Struct):
    """What is read of a sound message to know its table."""

    source_table: str | None = None


_NAMING: Final = msgspec.json.Decoder(_Naming)


class Script:
    """One device with a journal, to be told what to send.

    Devices of different seeds have nothing in common, so that a scenario can be played again.

    Args:
        seed: What its name and its numbers are made of.
        slug: The first level of its topics.
        moment_ms: When its clock begins.
        limits: What messages may be where it plays.
        failures: How many rows in a row that fit no table open a circuit there.
    """

    def __init__(
        self,
        seed: str,
        *,
        slug: str = "acme",
        moment_ms: int = _SPRING_2026_MS,
        limits: Limits = DEFAULT_LIMITS,
        failures: int = FAILURES_THAT_OPEN_THE_CIRCUIT,
    ) -> None:
        self.chance = random.Random(seed)
        self.device_name = f"scenario-{seed}"
        self.slug = slug
        self.limits = limits
        self.failures = failures
        self.steps: list[Step] = []
        self.missing: set[Missing] = set()
        self._moment_ms = moment_ms
        self._commit_seq = 0
        self._batch_seq = 0
        self.epoch = self.uuid7()

    @property
    def root(self) -> str:
        """The root of the device's topics."""
        return f"{self.slug}/{self.device_name}"

    def sends(
        self,
        message: Document | bytes,
        expected: Expected,
        *,
        on: str = ROWS,
        registered: bool = True,
    ) -> None:
        """Send a message below the device's root."""
        self.sends_to(f"{self.root}/{on}", message, expected, registered=registered)

    def sends_to(
        self, topic: str, message: Document | bytes, expected: Expected, *, registered: bool = True
    ) -> None:
        """Send a message on any topic."""
        payload = message if isinstance(message, bytes) else compact(message).encode()
        self.steps.append(Step(topic, payload, expected, registered))

    def leaves_out(self, first: int, last: int, *, of: SequenceKind = SequenceKind.ROWS) -> None:
        """Write down that these numbers never come."""
        self.missing.add(Missing(of, first, last))

    def changes(
        self, count: int, *, op: str = "update", pk: Any = None, **row: Any
    ) -> list[Change]:
        """The next changes of the journal: of rows 1, 2, 3 …, or all of one row."""
        return [self._change(pk or place, op, row) for place in range(1, count + 1)]

    def batch(
        self,
        changes: Sequence[Change],
        *,
        table: str = TABLE,
        columns: Sequence[SchemaColumn] = COLUMNS,
        announced: bool = True,
        **members: Any,
    ) -> Document:
        """A row batch of some changes; members that are named replace its own."""
        document = row_batch(
            changes,
            batch_id=self.uuid7(),
            epoch=self.epoch,
            table=table,
            schema_hash=schema_hash(table, columns),
            schema_columns=declaration(table, columns) if announced else None,
        )
        return document | members

    def samples(
        self,
        *,
        batch_seq: int | None = None,
        table: str = SAMPLES,
        columns: Sequence[SchemaColumn] = SAMPLE_COLUMNS,
        announced: bool = False,
        rows: Sequence[Document] | None = None,
        **members: Any,
    ) -> Document:
        """The next telemetry batch: the given samples, or three that are a second apart."""
        self._batch_seq = self._batch_seq + 1 if batch_seq is None else batch_seq
        document = telemetry_batch(
            self.measured(3) if rows is None else rows,
            batch_id=self.uuid7(),
            batch_seq=self._batch_seq,
            table=table,
            schema_hash=schema_hash(table, columns),
            schema_columns=declaration(table, columns) if announced else None,
        )
        return document | members

    def measured(self, count: int, **fields: Any) -> list[Document]:
        """Samples that are a second apart; fields that are named join or replace their own."""
        moments = [self._moment_ms + second * 1000 for second in range(count)]
        return [{"ts": rfc3339(at), "fields": {"celsius": at % 7 / 2, **fields}} for at in moments]

    def rebuild_journal(self) -> None:
        """Begin a new epoch, whose numbers start again."""
        self.epoch = self.uuid7()
        self.restart_counter()

    def restart_counter(self) -> None:
        """Forget how far the numbers of the journal had come."""
        self._commit_seq = 0

    def uuid7(self, moment_ms: int | None = None) -> str:
        """An id of the device's present, or of another moment."""
        self._moment_ms += 1
        at = self._moment_ms if moment_ms is None else moment_ms
        return uuid7(at, self.chance.getrandbits(74))

    def _change(self, pk: Any, op: str, row: Document) -> Change:
        self._commit_seq += 1
        content = {"id": pk, "state": "running", "rpm": self._commit_seq / 2, **row}
        return {
            "commit_seq": self._commit_seq,
            "op": op,
            "pk": {"id": pk},
            "row": None if op == "delete" else content,
        }
