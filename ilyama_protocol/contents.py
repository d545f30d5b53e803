"""Contents: what the rows of a batch say, row by row or, where all rows are alike, by column."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeAlias

import msgspec

Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class AlikeContents:
    """Rows that all have the same columns, at least one, but for deletes, which are None.

    `records` have a field for each column, in the order of `columns`.
    """

    columns: tuple[str, ...]
    records: list[msgspec.Struct | None]
    deletes: int

    @property
    def members(self) -> int:
        """How many values there are in all rows."""
        return (len(self.records) - self.deletes) * len(self.columns)

    @property
    def rows(self) -> list[Row | None]:
        """The content of every row."""
        return [None if record is None else self._row(record) for record in self.records]

    def columns_seen(self) -> set[str]:
        """The columns that some row has."""
        return {*self.columns}

    def _row(self, record: msgspec.Struct) -> Row:
        return dict(zip(self.columns, msgspec.structs.astuple(record), strict=True))

    def of(self, rows: Sequence[int]) -> dict[str, tuple[Sequence[int], list[Any]]]:
        """Each column's row indexes and values, of the given rows."""
        records: list[Any] = self.records
        if self.deletes:
            rows = [i for i in rows if records[i] is not None]
        if not rows:
            return {}
        if len(rows) < len(records):
            records = [records[i] for i in rows]
        fields = type(records[0]).__struct_fields__
        return {
            name: (rows, [*map(attrgetter(field), records)])
            for name, field in zip(self.columns, fields, strict=True)
        }


@dataclass(frozen=True, slots=True)
class MixedContents:
    """Rows that may differ in their columns; that of a delete is None."""

    rows: list[Row | None]

    @property
    def deletes(self) -> int:
        """How many rows are None."""
        return self.rows.count(None)

    @property
    def members(self) -> int:
        """How many values there are in all rows."""
        return sum(map(len, filter(None, self.rows)))

    def columns_seen(self) -> set[str]:
        """The columns that some row has."""
        return {name for row in self.rows if row is not None for name in row}

    def of(self, rows: Sequence[int]) -> dict[str, tuple[Sequence[int], list[Any]]]:
        """Each column's row indexes and values, of the given rows."""
        columns: dict[str, tuple[list[int], list[Any]]] = {}
        for i in rows:
            for name, value in (self.rows[i] or {}).items():
                indexes, values = columns.setdefault(name, ([], []))
                indexes.append(i)
                values.append(value)
        return dict(columns)


Contents: TypeAlias = AlikeContents | MixedContents
