"""The tables of the devices as they are now: what all their changes come to."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tests.oracle.canonical import canonical_json
from tests.oracle.records import RowChange

NUMBER_TYPES = {"bigint": int, "double": float}
NUMBERS = {"INTEGER", "REAL", "NUMERIC"}


class Column(NamedTuple):
    """What a table says of a column: its affinity, if there is one, and its type."""

    affinity: str | None
    type: str


class _Standing(NamedTuple):
    place: tuple[int, int]
    content: dict[str, Any] | None
    own: Mapping[str, str]
    """The affinities that its own schema names, where that is known."""


class DeviceTables:
    """For every primary key ever seen, the content of its highest change; none once deleted."""

    def __init__(self, rank: Callable[[str, str], int]) -> None:
        """Start with empty tables; `rank` tells the place of a device's epoch."""
        self._rank = rank
        self._standing: dict[str, dict[tuple[str, str], _Standing]] = {}
        self._affinities: dict[tuple[str, str], set[str]] = {}

    @property
    def source_tables(self) -> set[str]:
        """The tables that were ever told of by a change that counts."""
        return {*self._standing}

    def observe(
        self,
        change: RowChange,
        *,
        row: Mapping[str, Any] | None,
        affinities: Mapping[str, str] | None,
    ) -> None:
        """Take the next new change; which of a row's members count, its schema says."""
        place = (self._rank(change.device_id, change.journal_epoch), change.commit_seq)
        for name, affinity in (affinities or {}).items():
            self._affinities.setdefault((change.source_table, name), set()).add(affinity)
        content = None
        if row is not None:
            content = {n: v for n, v in row.items() if affinities is None or n in affinities}
        table = self._standing.setdefault(change.source_table, {})
        key = (change.device_id, change.source_pk_hash)
        if key not in table or table[key].place < place:
            table[key] = _Standing(place, content, affinities or {})

    def affinity(self, source_table: str, column: str) -> str | None:
        """The affinity that holds all that devices gave a column; None when they gave none."""
        told = self._affinities.get((source_table, column), set())
        if len(told) < 2:
            return next(iter(told), None)
        if told <= NUMBERS:
            return "NUMERIC"
        return "MIXED" if told & NUMBERS else "TEXT"

    def rows(
        self, source_table: str, columns: Mapping[str, Column]
    ) -> dict[tuple[str, str], dict[str, Any]]:
        """The rows that live by device and hash of the primary key, without values of null."""
        return {
            key: {
                name: held
                for name, value in standing.content.items()
                if (held := _held(value, _seen(columns, name, standing.own))) is not None
            }
            for key, standing in self._standing[source_table].items()
            if standing.content is not None
        }


def _seen(columns: Mapping[str, Column], name: str, own: Mapping[str, str]) -> Column:
    """A column as one row sees it: where devices disagree on its kind, its own schema counts."""
    column = columns.get(name, Column(None, "missing"))
    return column._replace(affinity=own.get(name)) if column.affinity == "MIXED" else column


def _held(value: Any, column: Column) -> Any:
    """A value as a column of this affinity and type keeps it; None when it does not fit.

    What fits is never lost: in a column whose type cannot hold it, it is expected as it is.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is None or not _fits(column.affinity, is_number=is_number):
        return None
    if column.type in NUMBER_TYPES:
        held = NUMBER_TYPES[column.type](value) if is_number else None
        return held if held == value else value
    return value if isinstance(value, str) else canonical_json(value)


def _fits(affinity: str | None, *, is_number: bool) -> bool:
    wants_number = affinity in NUMBERS
    return affinity is None or wants_number == is_number
