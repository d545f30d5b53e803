"""Which rows are new, which came before, and which came too late."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from tests.oracle.canonical import canonical_json
from tests.oracle.records import KeyConflict


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
        self._ranks: dict[str, dict[str, int]] = {}
        self._highest: dict[tuple[str, str, str], tuple[int, int]] = {}

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

    def is_late(self, key: RowKey) -> bool:
        """Accept a new row's place in the order of its primary key, and say if it came too late.

        Journal epochs rank by their first accepted arrival on the device, whatever the table.
        """
        ranks = self._ranks.setdefault(key.device_id, {})
        place = (ranks.setdefault(key.journal_epoch, len(ranks)), key.commit_seq)
        record = (key.device_id, key.source_table, key.source_pk_hash)
        highest = self._highest.get(record, place)
        self._highest[record] = max(place, highest)
        return place < highest

    def rank(self, device_id: str, epoch: str) -> int:
        """The place of an epoch of which rows were accepted."""
        return self._ranks[device_id][epoch]

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
                first=self._first[key],
                other=other,
                arrivals=arrivals,
            )
