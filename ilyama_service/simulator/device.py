"""One simulated device: its journal, its tables, and its habits, the good ones and the bad."""

import random
from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final
from zlib import crc32

import msgspec
import orjson

from ilyama_service.simulator.envelopes import row_batch, uuid7
from ilyama_service.simulator.faults import spoiled
from ilyama_service.simulator.messages import Behaviour, Change, Draft, SentRow
from ilyama_service.simulator.plan import FleetPlan
from ilyama_service.simulator.sampling import Sampler
from ilyama_service.simulator.source_tables import (
    DECLARATIONS,
    SCHEMA_HASHES,
    Row,
    SourceTable,
)

_REMEMBERED: Final = 4
_DECLARES_AGAIN: Final = 0.02
_WEIGHTS: Final = {
    Behaviour.REDELIVERY: 30,
    Behaviour.SPLIT: 20,
    Behaviour.REORDERED: 20,
    Behaviour.REJECTED: 20,
    Behaviour.CLONE: 8,
    Behaviour.NEW_EPOCH: 2,
}


class SimulatedDevice:
    """Makes the messages of one device, one call after another."""

    def __init__(self, plan: FleetPlan, number: int, tables: Sequence[type[SourceTable]]) -> None:
        self.number = number
        self._plan = plan
        self._chance = random.Random(f"{plan.identity}/{number}")
        self._tables = [table(self._chance) for table in tables]
        self._weights = [table.weight for table in tables]
        self._declared: set[str] = set()
        self._recent: deque[Draft] = deque(maxlen=_REMEMBERED)
        self._epoch = ""
        self._commit_seq = 0
        self._moment_ms = 0
        self._sampler = Sampler(self._chance, first_seq=plan.batch_seqs.get(number, 0))
        self._sampled: Draft | None = None

    def next(self, moment_ms: int) -> list[Draft]:
        """What the device sends next, in the order in which it sends it."""
        self._moment_ms = moment_ms
        if not self._epoch:
            self._begin_journal()
        if self._plan.telemetry and self._chance.random() < self._plan.telemetry:
            return [self._sample()]
        drafts = self._act()
        self._recent.extend(draft for draft in drafts if draft.behaviour is not Behaviour.CLONE)
        return drafts

    def _sample(self) -> Draft:
        """The next telemetry batch, or now and then the last one once more."""
        if self._sampled is not None and self._chance.random() < self._plan.misbehave:
            return self._sampled
        rows = self._plan.rows_per_batch
        self._sampled = self._sampler.next(self._uuid7(), moment_ms=self._moment_ms, rows=rows)
        return self._sampled

    def _act(self) -> list[Draft]:
        if self._chance.random() >= self._plan.misbehave:
            return [self._fresh()]
        chosen = self._chance.choices([*_WEIGHTS], [*_WEIGHTS.values()])[0]
        habits: dict[Behaviour, Callable[[], list[Draft]]] = {
            Behaviour.REDELIVERY: self._redeliver,
            Behaviour.SPLIT: self._split,
            Behaviour.REORDERED: self._reorder,
            Behaviour.REJECTED: self._fail,
            Behaviour.CLONE: self._clash,
            Behaviour.NEW_EPOCH: self._rebuild,
        }
        return habits[chosen]() or [self._fresh()]

    def _fresh(self, behaviour: Behaviour = Behaviour.FRESH) -> Draft:
        table = self._chance.choices(self._tables, self._weights)[0]
        count = self._plan.rows_per_batch
        changes = [self._commit(table) for _ in range(count)]
        return self._batch(behaviour, table.name, changes)

    def _redeliver(self) -> list[Draft]:
        return [self._chance.choice(self._recent).again()] if self._recent else []

    def _split(self) -> list[Draft]:
        whole = self._sound_one(at_least=2)
        if whole is None:
            return []
        changes = whole.changes
        cut = self._chance.randrange(1, len(changes))
        parts = (changes[:cut], changes[cut:])
        return [self._again(Behaviour.SPLIT, whole, part) for part in parts]

    def _reorder(self) -> list[Draft]:
        drafts = [self._fresh(Behaviour.REORDERED) for _ in range(self._chance.randint(2, 3))]
        return drafts[::-1]

    def _fail(self) -> list[Draft]:
        sound = self._fresh(Behaviour.REJECTED)
        document = orjson.loads(sound.payload)
        # A batch that is rejected tells nothing, its schema included.
        self._declared.discard(sound.source_table)
        payload, code = spoiled(document, self._chance)
        return [msgspec.structs.replace(sound, payload=payload, code=code, rows=[])]

    def _clash(self) -> list[Draft]:
        """A clone of the device uses numbers of the same journal for other content."""
        original = self._sound_one(at_least=1)
        changes = [] if original is None else [c for c in original.changes if c["row"]]
        if original is None or not changes:
            return []
        others = [change | {"row": _other(change["row"])} for change in changes]
        return [self._again(Behaviour.CLONE, original, others)]

    def _rebuild(self) -> list[Draft]:
        self._begin_journal()
        return [self._fresh(Behaviour.NEW_EPOCH)]

    def _begin_journal(self) -> None:
        self._epoch = self._uuid7()
        self._commit_seq = 0
        for table in self._tables:
            table.forget()

    def _commit(self, table: SourceTable) -> Change:
        # Other tables, which are not replicated, use numbers of the journal too.
        self._commit_seq += 1 + (self._chance.random() < 0.02)
        edit = table.edit(self._moment_ms)
        return {"commit_seq": self._commit_seq, "op": edit.op, "pk": edit.pk, "row": edit.row}

    def _sound_one(self, *, at_least: int) -> Draft | None:
        sound = [draft for draft in self._recent if draft.code is None]
        fitting = [draft for draft in sound if len(draft.rows) >= at_least]
        return self._chance.choice(fitting) if fitting else None

    def _again(self, behaviour: Behaviour, origin: Draft, changes: list[Change]) -> Draft:
        return self._batch(behaviour, origin.source_table, changes, epoch=origin.journal_epoch)

    def _batch(
        self, behaviour: Behaviour, table: str, changes: list[Change], *, epoch: str | None = None
    ) -> Draft:
        document = row_batch(
            changes,
            batch_id=self._uuid7(),
            epoch=epoch or self._epoch,
            table=table,
            schema_hash=SCHEMA_HASHES[table],
            schema_columns=self._announced(table),
        )
        return Draft(
            behaviour=behaviour,
            batch_id=document["batch_id"],
            payload=self._padded(document),
            source_table=table,
            journal_epoch=document["journal_epoch"],
            rows=[_sent_row(change) for change in changes],
        )

    def _announced(self, table: str) -> dict[str, Any] | None:
        if table in self._declared and self._chance.random() >= _DECLARES_AGAIN:
            return None
        self._declared.add(table)
        return DECLARATIONS[table]

    def _padded(self, document: dict[str, Any]) -> bytes:
        payload = orjson.dumps(document)
        missing = self._plan.payload_bytes - len(payload) - len(b',"padding":""')
        if missing <= 0:
            return payload
        noise = self._chance.randbytes(missing // 2 + 1).hex()[:missing]
        return payload[:-1] + b',"padding":"' + noise.encode() + b'"}'

    def _uuid7(self) -> str:
        return uuid7(self._moment_ms, self._chance.getrandbits(74))


def _sent_row(change: Change) -> SentRow:
    [(column, key)] = change["pk"].items()
    row = change["row"]
    checksum = 0 if row is None else crc32(orjson.dumps(row))
    return SentRow(change["commit_seq"], change["op"], _pk_text(column, key), checksum)


@lru_cache(maxsize=1024)
def _pk_text(column: str, key: int | str) -> msgspec.Raw:
    return msgspec.Raw(orjson.dumps({column: key}))


def _other(row: Row) -> Row:
    """Other content under the same primary key: its last column differs."""
    name, value = list(row.items())[-1]
    return row | {name: f"{value}*" if isinstance(value, str) else value + 1}
