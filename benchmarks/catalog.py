"""The ratios, in the order of their table."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from benchmarks import batch_leverage, decoding, replay
from benchmarks.measuring import Measured, Target
from benchmarks.workbench import Workbench


class Benchmark(NamedTuple):
    """One ratio: what it is called, what it should be, and who measures it."""

    id: int
    short: str
    name: str
    target: Target
    measure: Callable[[Workbench], Measured]


BENCHMARKS = (
    Benchmark(
        3,
        "replay",
        "replay: engine time of a byte-identical batch ÷ of its first ingestion",
        Target(0.02),
        replay.measure,
    ),
    Benchmark(
        6,
        "decoding",
        "validate + hash + Arrow, rows/s/core ÷ bare orjson.loads",
        Target(0.6, reach=1.0, at_least=True),
        decoding.measure,
    ),
    Benchmark(
        8,
        "batch leverage",
        "batch leverage: wall per 64-row batch, 64 queued ÷ 1",
        Target(0.05),
        batch_leverage.measure,
    ),
)
