"""Contents: what the rows of a batch say, row by row or, where all rows are alike, by column."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class AlikeContents:
    """Rows that all have the same columns; there is at least one of each."""

    columns: dict[str, list[Any]]

    @property
    def rows(self) -> list[Row | None]:
        """The content of every row."""
        values = zip(*self.columns.values(), strict=True)
        return [dict(zip(self.columns, row, strict=True)) for row in values]

    def __len__(self) -> int:
        """The number of rows."""
        return len(next(iter(self.columns.values())))

    def of(self, rows: Sequence[int]) -> dict[str, tuple[Sequence[int], list[Any]]]:
        """Each column's row indexes and values, of the given rows."""
        if len(rows) == len(self):
            return {name: (rows, values) for name, values in self.columns.items()}
        return {name: (rows, [values[i] for i in rows]) for name, values in self.columns.items()}


@dataclass(frozen=True, slots=True)
class MixedContents:
    """Rows that may differ in their columns; that of a delete is None."""

    rows: list[Row | None]

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.rows)

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
