"""Datapoints that are there twice, found without a look at the ids of the others.

The datapoints of a batch lie column by column, in runs of rising moments: no moment is twice in a
run, and the runs of an owner's key seldom meet. Only where two do, the ids are counted.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ilyama_assets.drains.columns import Longs

SAMPLE: Final = 10
_FAMILY: Final = ("owner_id", "key", "source")
"""What the series of different instances share: these too have no two rows at one moment."""
_IDENTITY: Final = ["datapoint_id", "revision"]


def repeated_points(points: pa.Table) -> list[str]:
    """Some ids that datapoints of one revision share."""
    questioned = _questioned(points) if points.num_rows else None
    if questioned is None:
        return []
    ids = points.select(_IDENTITY).filter(pa.array(questioned))
    counted = ids.group_by(_IDENTITY).aggregate([([], "count_all")])
    repeated = counted.filter(pc.greater(counted["count_all"], 1))
    return sorted(repeated["datapoint_id"].to_pylist())[:SAMPLE]


def _questioned(points: pa.Table) -> npt.NDArray[np.bool_] | None:
    """Which datapoints are of families whose runs meet; None when no two do."""
    moments = points["ts"].to_numpy().astype(np.int64, copy=False)
    codes = [_codes(points[name]) for name in _FAMILY]
    goes_on = moments[1:] > moments[:-1]
    for code in codes:
        goes_on &= code[1:] == code[:-1]
    begins = np.flatnonzero(np.concatenate([[True], ~goes_on]))
    sizes = np.diff(begins, append=len(moments))
    families = _families([code[begins] for code in codes])
    met = _met(families, moments[begins], moments[begins + sizes - 1])
    return np.repeat(np.isin(families, met), sizes) if met.size else None


def _met(families: Longs, first: Longs, last: Longs) -> Longs:
    """The families of which two runs share a moment, or might: they are not apart."""
    order = np.lexsort((first, families))
    families, first, last = families[order], first[order], last[order]
    meets = (families[1:] == families[:-1]) & (first[1:] <= last[:-1])
    return np.unique(families[1:][meets])


def _families(codes: list[npt.NDArray[np.int32]]) -> Longs:
    """One number for each combination of codes."""
    families = np.zeros(len(codes[0]), np.int64)
    for code in codes:
        families = families * (int(code.max()) + 2) + code + 1
    return families


def _codes(column: pa.ChunkedArray) -> npt.NDArray[np.int32]:
    """A number for each text of a column, the same wherever it stands; -1 for none."""
    texts = column.combine_chunks()
    if not pa.types.is_dictionary(texts.type):
        texts = texts.dictionary_encode()
    codes: npt.NDArray[np.int32] = texts.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return codes
