"""Texts that stand in one buffer: cut out when they are asked for, one by one or all at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Places = npt.NDArray[np.int64]


class Distinct(NamedTuple):
    """Different texts, and for every place which of them stands there."""

    texts: list[str]
    which: Places


class CutTexts(Sequence[str]):
    """Texts by where they begin and end in a buffer of valid UTF-8, in rising order."""

    def __init__(self, buffer: bytes, begins: Places, ends: Places) -> None:
        self._buffer = buffer
        self._begins = begins
        self._ends = ends

    def __len__(self) -> int:
        """The number of texts."""
        return len(self._begins)

    def __iter__(self) -> Iterator[str]:
        """The texts, one after another."""
        buffer = self._buffer
        for begin, end in zip(self._begins.tolist(), self._ends.tolist(), strict=True):
            yield buffer[begin:end].decode()

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> CutTexts: ...
    def __getitem__(self, index: int | slice) -> str | CutTexts:
        """The text at a place, or those of a slice."""
        if isinstance(index, slice):
            return CutTexts(self._buffer, self._begins[index], self._ends[index])
        return self._buffer[self._begins[index] : self._ends[index]].decode()

    def __eq__(self, other: object) -> bool:
        """Whether another sequence has the same texts."""
        return isinstance(other, Sequence) and [*self] == [*other]

    def __repr__(self) -> str:
        return repr([*self])

    def column(self) -> pa.StringArray:
        """All texts as a column."""
        # As offsets, the places give the texts and, between them, what is not wanted.
        offsets = np.empty(2 * len(self) + 1, np.int32)
        offsets[:-1:2], offsets[1::2], offsets[-1] = self._begins, self._ends, self._ends[-1]
        pieces = pa.StringArray.from_buffers(
            2 * len(self), pa.py_buffer(offsets), pa.py_buffer(self._buffer)
        )
        return pieces.take(pa.array(np.arange(0, 2 * len(self), 2)))

    def distinct(self) -> Distinct:
        """The texts without repetitions."""
        encoded = self.column().dictionary_encode()
        return Distinct(encoded.dictionary.to_pylist(), encoded.indices.to_numpy())
