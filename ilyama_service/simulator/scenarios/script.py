"""A device that does as it is told, and writes down what must come of it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from ilyama_protocol.fingerprint import SchemaColumn, schema_hash
from ilyama_protocol.intake.outcomes import Outcome
from ilyama_protocol.rejections import RejectionCode
from ilyama_protocol.topics import SYNC_PATHS, MessageKind
from ilyama_service.simulator.envelopes import Document, row_batch, telemetry_batch, uuid7
from ilyama_service.simulator.messages import Change
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
_HANDLED: Final = "handled"
_SPRING_2026_MS: Final = 1_777_366_800_000


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """What must come of a message.

    Attributes:
        outcomes: The ends it may come to; several where the deployment's policy decides.
        code: The code it must be rejected with.
        fresh: How many of its rows are kept or wait.
        known: How many were known before.
        conflicts: How many of those have other content; None leaves it open.
        late: How many rows are older than a change of their row that came before.
    """

    outcomes: tuple[str, ...]
    code: RejectionCode | None = None
    fresh: int = 0
    known: int = 0
    conflicts: int | None = 0
    late: int = 0


def accepted(fresh: int, *, known: int = 0, conflicts: int = 0, late: int = 0) -> Expected:
    """So many rows are new."""
    return Expected(
        outcomes=(Outcome.ACCEPTED,), fresh=fresh, known=known, conflicts=conflicts, late=late
    )


def taken(fresh: int) -> Expected:
    """So many rows are kept: accepted, or staged where a schema has to be reviewed first."""
    return Expected(outcomes=(Outcome.ACCEPTED, Outcome.STAGED), fresh=fresh)


def duplicate(known: int, *, conflicts: int | None = 0) -> Expected:
    """Nothing in it is new."""
    return Expected(outcomes=(Outcome.DUPLICATE,), known=known, conflicts=conflicts)


def rejected(code: RejectionCode) -> Expected:
    """It breaks a rule."""
    return Expected(outcomes=(Outcome.REJECTED,), code=code)


def handled() -> Expected:
    """It is no batch, and is seen to."""
    return Expected(outcomes=(Outcome.KEPT, _HANDLED))


class Step(msgspec.Struct, frozen=True):
    """One message of a scenario, and what must come of it."""

    topic: str
    payload: bytes
    expected: Expected
    registered: bool = True


class Script:
    """One device with a journal, to be told what to send.

    Devices of different seeds have nothing in common, so that a scenario can be played again.
    """

    def __init__(self, seed: str, *, slug: str = "acme", moment_ms: int = _SPRING_2026_MS) -> None:
        self.chance = random.Random(seed)
        self.device_name = f"scenario-{seed}"
        self.slug = slug
        self.steps: list[Step] = []
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
