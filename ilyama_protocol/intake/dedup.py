"""Which rows of a batch are new, which repeat an earlier one, and which come late."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from ilyama_protocol.canonical import canonical_json
from ilyama_protocol.intake.conflicts import Conflict, row_conflict
from ilyama_protocol.intake.history import History, RowKey
from ilyama_protocol.intake.state import DeviceState
from ilyama_protocol.messages import RowBatch

Place = tuple[int, int]
"""(epoch rank, commit_seq): where a change stands in the order of its primary key."""


class Content(NamedTuple):
    """What a row change says; two arrivals under one key must agree on it."""

    op: str
    row: str | None

    def canonical(self) -> str:
        """The content as canonical JSON, in which spelling does not matter."""
        row = None if self.row is None else msgspec.json.decode(self.row)
        return canonical_json({"op": self.op, "row": row})


class RowsDecision(msgspec.Struct):
    """What becomes of the rows of one batch."""

    new: Sequence[int]
    late: set[int]
    duplicates: int
    below_floor: int
    conflicts: list[Conflict]


class _Noted(NamedTuple):
    """Accepted rows of a batch: no more of it than dedup may ask for."""

    journal_epoch: str
    rank: int
    new: Sequence[int]
    pk_hashes: Iterable[str]
    commit_seq: array[int]
    op: list[str]
    row_text: Sequence[str | None]


class LineageMemory:
    """The rows that this drain has accepted for one lineage.

    Batches on the fast path are only noted; they are indexed when a row first asks for them.
    """

    def __init__(self, source_table: str, history: History) -> None:
        self._table = source_table
        self._history = history
        self._contents: dict[RowKey, Content] = {}
        self._newest: dict[str, Place] = {}
        self._unindexed: list[_Noted] = []

    def note(
        self, batch: RowBatch, pk_hashes: Iterable[str], new: Sequence[int], rank: int
    ) -> None:
        """Remember accepted rows."""
        self._unindexed.append(
            _Noted(
                batch.journal_epoch,
                rank,
                new,
                pk_hashes,
                batch.commit_seq,
                batch.op,
                batch.row_text,
            )
        )

    def content(self, key: RowKey) -> Content | None:
        """The content accepted first under a key, if there is one."""
        found = self._contents.get(key)
        if found is None and (stored := self._history.stored.get(key)) is not None:
            found = Content(stored.op, stored.row)
        return found

    def newest(self, pk_hash: str, state: DeviceState) -> Place | None:
        """The newest accepted change of a primary key, if there is one."""
        stored = self._history.newest.get((self._table, pk_hash), ())
        places = [(state.epochs[change.journal_epoch], change.commit_seq) for change in stored]
        if (seen := self._newest.get(pk_hash)) is not None:
            places.append(seen)
        return max(places, default=None)

    def index(self) -> None:
        """Make every noted row known by its key."""
        for noted in self._unindexed:
            pk_hashes, row_text = [*noted.pk_hashes], [*noted.row_text]
            for i in noted.new:
                pk_hash, place = pk_hashes[i], (noted.rank, noted.commit_seq[i])
                key = RowKey(self._table, noted.journal_epoch, pk_hash, noted.commit_seq[i])
                self._contents[key] = Content(noted.op[i], row_text[i])
                self._newest[pk_hash] = max(place, self._newest.get(pk_hash, place))
        self._unindexed.clear()


def all_rows_are_new(state: DeviceState, batch: RowBatch, rank: int) -> bool:
    """Whether the batch continues its journal, so that no row of it needs to be looked at."""
    lineage = state.lineages.get(batch.source_table)
    if rank < state.newest_rank:
        return False
    if lineage is not None:
        watermark = lineage.watermarks.get(batch.journal_epoch, -1)
        floor = lineage.floors.get(batch.journal_epoch, -1)
        if batch.first_commit_seq <= max(watermark, floor):
            return False
    numbers = np.frombuffer(batch.commit_seq, np.int64)
    return bool((numbers[1:] > numbers[:-1]).all())


def decide_rows(
    state: DeviceState,
    memory: LineageMemory,
    batch: RowBatch,
    pk_hashes: Iterable[str],
    rank: int,
) -> RowsDecision:
    """Decide every row of a batch, in order of index; nothing is remembered yet.

    The rank is that of its epoch, or the one that an unseen epoch would get with it.
    """
    if all_rows_are_new(state, batch, rank):
        return RowsDecision(range(len(batch.op)), set(), 0, 0, [])
    memory.index()
    return _decide_row_by_row(state, memory, batch, pk_hashes, rank)


def _decide_row_by_row(
    state: DeviceState,
    memory: LineageMemory,
    batch: RowBatch,
    pk_hashes: Iterable[str],
    rank: int,
) -> RowsDecision:
    new: list[int] = []
    decision = RowsDecision(new, set(), 0, 0, [])
    lineage = state.lineages.get(batch.source_table)
    floor = -1 if lineage is None else lineage.floors.get(batch.journal_epoch, -1)
    contents: dict[RowKey, Content] = {}
    canonical: dict[RowKey, str] = {}
    newest: dict[str, Place] = {}
    changes = zip(pk_hashes, batch.commit_seq, batch.op, batch.row_text, strict=True)
    for i, (pk_hash, seq, op, row) in enumerate(changes):
        if seq <= floor:
            decision.below_floor += 1
            continue
        key = RowKey(batch.source_table, batch.journal_epoch, pk_hash, seq)
        content = Content(op, row)
        first = contents.get(key) or memory.content(key)
        if first is not None:
            decision.duplicates += 1
            if first != content:
                one = canonical.get(key) or canonical.setdefault(key, first.canonical())
                decision.conflicts += _conflict(key, one, content.canonical())
            continue
        latest = newest.get(pk_hash) or memory.newest(pk_hash, state)
        if latest is not None and latest > (rank, seq):
            decision.late.add(i)
        contents[key] = content
        newest[pk_hash] = max((rank, seq), latest or (rank, seq))
        new.append(i)
    return decision


def _conflict(key: RowKey, first: str, other: str) -> list[Conflict]:
    return [] if first == other else [row_conflict(key, first, other)]
