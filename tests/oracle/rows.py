"""Which rows are new, which came before, and which came too late."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from tests.oracle.canonical import canonical_json
from tests.oracle.records import KeyConflict, listed_first


class RowKey(NamedTuple):
    """Exactly one row survives per such key."""

    device_id: str
    source_table: str
    journal_epoch: str
    source_pk_hash: str
    commit_seq: int


class RowMemory:
    """Every row key ever accepted, with the content that came first."""

    def __init__(self) -> None:
        """Start with no row seen."""
        self._first: dict[RowKey, str] = {}
        self._others: Counter[tuple[RowKey, str]] = Counter()
        self._came: dict[tuple[str, str], int] = {}
        self._accepted: dict[tuple[str, str, str], list[RowKey]] = {}

    def outcome(self, key: RowKey, content: str) -> str:
        """Remember an arrival and call it `new`, `duplicate` or `conflict`."""
        first = self._first.get(key)
        if first is None:
            self._first[key] = content
            return "new"
        if first == content:
            return "duplicate"
        self._others[key, content] += 1
        return "conflict"

    def is_late(self, key: RowKey, *, came_at: int) -> bool:
        """Accept a new row that first came at a moment, and say if a newer one was there before.

        Of two journals of a device that is the older whose first accepted message came first,
        whatever the table, and whenever it was accepted.
        """
        self._came.setdefault((key.device_id, key.journal_epoch), came_at)
        record = (key.device_id, key.source_table, key.source_pk_hash)
        accepted = self._accepted.setdefault(record, [])
        late = any(self._place(other) > self._place(key) for other in accepted)
        accepted.append(key)
        return late

    def _place(self, key: RowKey) -> tuple[int, int]:
        return self.rank(key.device_id, key.journal_epoch), key.commit_seq

    def rank(self, device_id: str, epoch: str) -> int:
        """The place of an epoch of which rows were accepted."""
        return self._came[device_id, epoch]

    def conflicts(self) -> Iterator[KeyConflict]:
        """Other contents under known keys, with the number of their arrivals."""
        for (key, other), arrivals in self._others.items():
            named = {
                "commit_seq": key.commit_seq,
                "journal_epoch": key.journal_epoch,
                "source_pk_hash": key.source_pk_hash,
            }
            yield KeyConflict(
                kind="row",
                device_id=key.device_id,
                source_table=key.source_table,
                key=canonical_json(named),
                first=listed_first(self._first[key]),
                other=other,
                arrivals=arrivals,
            )
