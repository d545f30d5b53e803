"""Datapoint ids for whole columns: the UUIDv8 of every (ts, series) at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_WORDS = range(1 << 16)
_DIGITS_OF_WORD = np.frombuffer("".join(f"{word:04x}" for word in _WORDS).encode(), np.uint32)
_LENGTH = 36
_GROUPS = ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))


def datapoint_ids(ts: npt.NDArray[np.int64], series: npt.NDArray[np.uint64]) -> pa.StringArray:
    """The ids of datapoints, from their microseconds and the 62 bits of their series."""
    words = _halves(ts, series).view(">u2").astype(np.uint16)
    digits = _DIGITS_OF_WORD[words].view(np.uint8)
    text = np.full((len(ts), _LENGTH), ord("-"), np.uint8)
    for hyphens, (begin, end) in enumerate(_GROUPS):
        text[:, begin + hyphens : end + hyphens] = digits[:, begin:end]
    offsets = np.arange(len(ts) + 1, dtype=np.int32) * _LENGTH
    return pa.StringArray.from_buffers(len(ts), pa.py_buffer(offsets), pa.py_buffer(text))


def datapoint_id_bytes(
    ts: npt.NDArray[np.int64], series: npt.NDArray[np.uint64]
) -> pa.FixedSizeBinaryArray:
    """The same ids as their sixteen bytes."""
    halves = pa.py_buffer(_halves(ts, series).tobytes())
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(ts), [None, halves])


def _halves(ts: npt.NDArray[np.int64], series: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    time = ts.astype(np.uint64) & np.uint64((1 << 60) - 1)
    high = (time >> np.uint64(12)) << np.uint64(16) | np.uint64(0x8000) | time & np.uint64(0xFFF)
    low = np.uint64(0b10 << 62) | series
    return np.stack([high, low], axis=1).astype(">u8")
