"""The ratios, in the order of their table."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from benchmarks import (
    batch_leverage,
    current_values,
    decoding,
    exactness_tax,
    flat_dedup,
    fresh_run,
    landing,
    orchestration,
    peer,
    replay,
    review_isolation,
    scaling,
    staged_release,
    telemetry,
)
from benchmarks.measuring import Measured, Target
from benchmarks.workbench import Scale, Workbench


class Benchmark(NamedTuple):
    """One ratio: what it is called, what it should be, and who measures it."""

    id: int
    short: str
    name: str
    target: Target
    measure: Callable[[Workbench], Measured]
    history_rows: Callable[[Scale], int] = lambda _: 0
    """How long the history that all share must be for it."""


BENCHMARKS = (
    Benchmark(
        1,
        "flat dedup",
        "flat dedup: commit of one new 4,096-row batch after a long history ÷ after 0.2 M rows",
        Target(1.10),
        flat_dedup.measure,
        lambda scale: scale.long_history_rows,
    ),
    Benchmark(
        2,
        "exactness tax",
        "exactness tax: exact-dedup commit ÷ blind append of the same rows",
        Target(1.15),
        exactness_tax.measure,
    ),
    Benchmark(
        3,
        "replay",
        "replay: engine time of a byte-identical batch ÷ of its first ingestion",
        Target(0.02),
        replay.measure,
    ),
    Benchmark(
        4,
        "fresh run",
        "fresh run: new process to first Spark result ÷ untuned cold session",
        Target(0.10, reach=0.05),
        fresh_run.measure,
    ),
    Benchmark(
        5,
        "orchestration tax",
        "orchestration tax: Dagster run over 64 batches ÷ the same functions called",
        Target(1.05),
        orchestration.measure,
    ),
    Benchmark(
        6,
        "decoding",
        "decoding: validate + hash + Arrow, rows/s/core ÷ bare orjson.loads",
        Target(0.6, reach=1.0, at_least=True),
        decoding.measure,
    ),
    Benchmark(
        7,
        "durable landing",
        "durable landing: fsynced-then-acked MB/s ÷ the same client auto-acking",
        Target(0.90, at_least=True),
        landing.measure,
    ),
    Benchmark(
        8,
        "batch leverage",
        "batch leverage: wall per 64-row batch with 64 queued ÷ with 1",
        Target(0.05),
        batch_leverage.measure,
    ),
    Benchmark(
        9,
        "peer",
        "peer: a million rows from JSON to current values ÷ by DuckDB and delta-rs",
        Target(1.25, reach=1.0),
        peer.measure,
    ),
    Benchmark(
        10,
        "current values",
        "current values of the whole fleet ÷ recomputing them (DuckDB) at 6.4 M rows",
        Target(0.05),
        current_values.measure,
        lambda _: current_values.ROWS_OF_HISTORY,
    ),
    Benchmark(
        12,
        "scaling",
        "scaling: rows/s on two cores ÷ on one",
        Target(1.6, reach=1.85, at_least=True),
        scaling.measure,
    ),
    Benchmark(
        13,
        "telemetry",
        "telemetry: rows/s of telemetry end to end ÷ rows/s of table rows",
        Target(0.9, at_least=True),
        telemetry.measure,
    ),
    Benchmark(
        14,
        "telemetry replay",
        "telemetry replay: engine time of a byte-identical batch ÷ of its first ingestion",
        Target(0.02),
        replay.measure_telemetry,
    ),
)

FULL_ONLY = (
    Benchmark(
        15,
        "staged release",
        "staged release: rows/s of releasing staged rows ÷ of taking them in at once",
        Target(0.5, at_least=True),
        staged_release.measure,
    ),
    Benchmark(
        16,
        "telemetry release",
        "telemetry release: rows/s of releasing staged telemetry ÷ of taking it in at once",
        Target(0.5, at_least=True),
        staged_release.measure_telemetry,
    ),
    Benchmark(
        17,
        "review isolation",
        "review isolation: drain beside a review with 0.2 M staged rows ÷ without any review",
        Target(1.10),
        review_isolation.measure,
    ),
)
"""What `make bench-full` measures besides."""
