"""The schemas that devices spelled out: rows keep theirs for good, lineages forget some."""

from collections.abc import Collection

from tests.oracle.staging import Columns, Lineage

MOST_UNACCEPTED = 16


class Announcements:
    """What lineages said of the columns behind hashes, in order of arrival."""

    def __init__(self) -> None:
        """Start with nothing announced."""
        self._all: dict[Lineage, dict[str, Columns]] = {}
        self._recalled: dict[Lineage, list[str]] = {}

    def add(self, lineage: Lineage, schema_hash: str, columns: Columns) -> None:
        """Take up a schema; the first announcement counts."""
        self._all.setdefault(lineage, {}).setdefault(schema_hash, columns)
        self._recalled.setdefault(lineage, []).append(schema_hash)

    def columns_of(self, lineage: Lineage, schema_hash: str) -> Columns | None:
        """The columns with which rows are read."""
        return self._all.get(lineage, {}).get(schema_hash)

    def recalled(self, lineage: Lineage) -> dict[str, Columns]:
        """The schemas that a lineage knows when it judges another."""
        return {name: self._all[lineage][name] for name in self._recalled.get(lineage, ())}

    def forget(self, lineage: Lineage, *, accepted: Collection[str]) -> None:
        """Let go of the oldest, when too many are remembered that nobody accepted."""
        recalled = self._recalled.get(lineage, [])
        open_ones = [name for name in recalled if name not in accepted]
        for name in open_ones[: max(0, len(open_ones) - MOST_UNACCEPTED)]:
            recalled.remove(name)
