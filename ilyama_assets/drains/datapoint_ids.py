"""Datapoint ids for whole columns: the UUIDv8 of every (ts, series) at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
_LENGTH = 36
_HYPHENS = (8, 13, 18, 23)
_PLACES = np.array([i for i in range(_LENGTH) if i not in _HYPHENS])


def datapoint_ids(ts: npt.NDArray[np.int64], series: npt.NDArray[np.uint64]) -> pa.StringArray:
    """The ids of datapoints, from their microseconds and the 62 bits of their series."""
    time = ts.astype(np.uint64) & np.uint64((1 << 60) - 1)
    high = (time >> np.uint64(12)) << np.uint64(16) | np.uint64(0x8000) | time & np.uint64(0xFFF)
    low = np.uint64(0b10 << 62) | series
    octets = np.stack([high, low], axis=1).astype(">u8").view(np.uint8).reshape(len(ts), 16)
    text = np.full((len(ts), _LENGTH), ord("-"), np.uint8)
    text[:, _PLACES[0::2]] = _DIGITS[octets >> 4]
    text[:, _PLACES[1::2]] = _DIGITS[octets & 0xF]
    offsets = np.arange(len(ts) + 1, dtype=np.int32) * _LENGTH
    return pa.StringArray.from_buffers(len(ts), pa.py_buffer(offsets), pa.py_buffer(text))
