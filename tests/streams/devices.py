"""Simulated devices: a journal shared by their tables, and the batches cut from it."""

import random
from dataclasses import dataclass, field, replace
from typing import Any

from ilyama_service.simulator.spelling import compact
from tests.streams.identifiers import Identifiers
from tests.streams.values import TABLES, Table

SLUGS = ("acme", "", "plant.north.1", "zakład", "devices.x")


@dataclass(frozen=True, slots=True)
class Message:
    """What a device publishes."""

    topic: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class Batch:
    """A valid row batch before it is spelled."""

    root: str
    batch_id: str
    epoch: str
    table: str
    schema_hash: str
    rows: tuple[dict[str, Any], ...]
    extra: dict[str, Any] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """The batch as its JSON members."""
        numbers = [row["commit_seq"] for row in self.rows]
        return {
            "format_version": 1,
            "capture_strategy": "sqlite_row_batch_v1",
            "batch_id": self.batch_id,
            "journal_epoch": self.epoch,
            "source_table": self.table,
            "schema_hash": self.schema_hash,
            "first_commit_seq": min(numbers),
            "last_commit_seq": max(numbers),
            "rows": [dict(row) for row in self.rows],
            **self.extra,
        }

    def message(self) -> Message:
        """The batch as a device sends it."""
        return rows_message(self.root, compact(self.document()))


def rows_message(root: str, text: str) -> Message:
    """A text sent as a row batch."""
    return Message(f"{root}/sync/rows/batch", text.encode())


class Device:
    """One device with its tables, its live rows and its journal."""

    def __init__(self, number: int, *, tables: int, pks: int, ids: Identifiers) -> None:
        """Place the device under one of the kinds of root."""
        self.number = number
        self.name = f"dev-{number:04d}"
        self.slug = SLUGS[number % len(SLUGS)]
        self.root = f"{self.slug}/{self.name}"
        self.tables = [self._table(number, place) for place in range(tables)]
        self.epochs = [ids.uuid7()]
        self._pks = pks
        self._ids = ids
        self._next_seq = {self.epochs[0]: 1}
        self._live: set[tuple[str, int]] = set()

    @staticmethod
    def _table(number: int, place: int) -> Table:
        kind, copy = TABLES[(number + place) % len(TABLES)], place // len(TABLES)
        return replace(kind, name=f"{kind.name}_{copy}") if copy else kind

    def rebuild_journal(self) -> None:
        """Start a new epoch, whose numbers begin anew."""
        self.epochs.append(self._ids.uuid7())
        self._next_seq[self.epochs[-1]] = 1

    def take_seq(self, epoch: str, gap: int = 0) -> int:
        """The journal's next number, after a gap of numbers of other tables."""
        number = self._next_seq[epoch] + gap
        self._next_seq[epoch] = number + 1
        return number

    def change(self, table: Table, rng: random.Random, *, epoch: str) -> dict[str, Any]:
        """The next change of some row of a table."""
        number = rng.randrange(self._pks)
        pk, place = table.plain_pk(number), (table.name, number)
        commit_seq = self.take_seq(epoch, gap=rng.choice((0, 0, 0, 1, 5)))
        op = self._op(place, rng)
        change = {"commit_seq": commit_seq, "op": op, "pk": pk, "row": None}
        return change if op == "delete" else change | {"row": table.row(pk, rng)}

    def _op(self, place: tuple[str, int], rng: random.Random) -> str:
        if place not in self._live:
            self._live.add(place)
            return "insert"
        if rng.random() < 0.8:
            return "update"
        self._live.discard(place)
        return "delete"

    def batch(self, table: Table, rng: random.Random, *, rows: int, epoch: str = "") -> Batch:
        """The next batch of a table, of the newest epoch unless told otherwise."""
        journal = epoch or self.epochs[-1]
        return Batch(
            root=self.root,
            batch_id=self._ids.uuid7(),
            epoch=journal,
            table=table.name,
            schema_hash=table.schema_hash(),
            rows=tuple(self.change(table, rng, epoch=journal) for _ in range(rows)),
        )
