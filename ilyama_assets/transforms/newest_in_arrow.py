"""The newest of each key among Arrow rows, in bounded memory: less work is left for the JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_MOST_GROUPS: Final = 2**62


def newest_rows(rows: pa.Table, *, key: Sequence[str], order: Sequence[Any]) -> pa.Table:
    """The row of each key that is highest in order; of columns of the order, the first decides."""
    keys = _numbered(rows, key)
    places = np.lexsort((*reversed(order), keys))
    in_order = keys[places]
    is_last = np.append(in_order[1:] != in_order[:-1], True)[: len(places)]
    return rows.take(pa.array(places[is_last]))


def merged_rows(
    found: Iterable[pa.Table], newest: Callable[[pa.Table], pa.Table], *, most_held: int
) -> Iterator[pa.Table]:
    """The newest rows of several tables: of each key one, as far as memory allows."""
    held: list[pa.Table] = []
    for rows in found:
        held.append(rows)
        if sum(table.num_rows for table in held) > most_held:
            merged = newest(pa.concat_tables(held))
            held = [merged]
            if merged.num_rows > most_held // 2:
                yield merged
                held = []
    if held:
        yield newest(pa.concat_tables(held))


def _numbered(rows: pa.Table, key: Sequence[str]) -> npt.NDArray[np.int64]:
    """A number for the key of each row, the same where the key is."""
    numbers = np.zeros(rows.num_rows, np.int64)
    count = 1
    for name in key:
        texts = rows[name].combine_chunks().dictionary_encode()
        size = len(texts.dictionary) + 1
        if count * size > _MOST_GROUPS:
            found, numbers = np.unique(numbers, return_inverse=True)
            count = len(found)
        codes = pc.fill_null(texts.indices, size - 1).to_numpy()
        numbers = numbers * size + codes
        count *= size
    return numbers
