"""The same drain without exactness: every row is taken for new, and nothing guards a retry.

Decoding, datapoints, the files, the Delta commits and the Postgres projection are the platform's
own. Left out is what is there for exactness alone: the decision which rows are new, the memory of
accepted rows, the look-up of older ones, the check for repeated keys, the seal, the lock of each
table and the transactions that move a drain from step to step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from benchmarks.work_orders import work_orders
from ilyama_assets.drains.closing import close_drain
from ilyama_assets.drains.orders import decode_products, encode
from ilyama_assets.drains.protocol import Intake
from ilyama_assets.drains.sealing import Seal, make_seal
from ilyama_assets.drains.task import PRODUCTS_DDL, decide_orders
from ilyama_protocol.intake.dedup import RowsDecision
from ilyama_protocol.intake.outcomes import Origin
from ilyama_resources.delta.data_files import by_table
from ilyama_resources.postgres.drains import Drain, DrainState

_ROWS = "ilyama_protocol.intake.row_intake"
_EXACTNESS = {
    f"{_ROWS}.decide_rows": lambda _state, _memory, batch, _hashes, _rank: _all_new(batch),
    f"{_ROWS}.may_meet_stored_rows": lambda _before, _batch, _rank: False,
    f"{_ROWS}.LineageMemory.note": lambda *_: None,
    "ilyama_assets.drains.integrity._repeated": lambda *_: [],
}


def append_blindly(intake: Intake, segments: Sequence[Path]) -> None:
    """Take segments into the tables as they are."""
    with intake.gateway.transaction() as tx:
        drain_id = tx.drains.last_id() + 1
    seal = _written(intake, segments, drain_id)
    for table, files in by_table(seal.files).items():
        intake.warehouse.add(table, drain_id, files)
    with intake.gateway.transaction() as tx:
        drain = _drain(drain_id, segments)
        tx.drains.open(drain_id, drain.day, origin=Origin.LIVE)
        tx.drains.seal(drain_id, b"")
        close_drain(tx, drain, seal, served_instances=intake.settings.served_instances)
        tx.commit()


def _written(intake: Intake, segments: Sequence[Path], drain_id: int) -> Seal:
    plan, orders = work_orders(intake, segments, drain_id=drain_id, tasks=intake.settings.cores)
    bodies = pa.table({"body": pa.array(map(encode, orders), pa.binary())})
    frame = intake.session().createDataFrame(bodies).mapInArrow(append_orders, PRODUCTS_DDL)
    products = [decode_products(body.as_py()) for body in frame.toArrow()["products"]]
    return make_seal(products, plan)


def append_orders(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Carry out work orders without exactness (for `mapInArrow`)."""
    with without_exactness():
        yield from decide_orders(batches)


@contextmanager
def without_exactness() -> Iterator[None]:
    """Take every row for new, and remember none."""
    with ExitStack() as stack:
        for name, blind in _EXACTNESS.items():
            stack.enter_context(patch(name, blind))
        yield


def _all_new(batch: Any) -> RowsDecision:
    return RowsDecision(range(len(batch.op)), set(), 0, 0, [])


def _drain(drain_id: int, segments: Sequence[Path]) -> Drain:
    now = datetime.now(UTC)
    day = datetime.fromisoformat(segments[0].parent.name).date()
    sizes = (len(segments), 0, 0)
    return Drain(drain_id, day, Origin.LIVE, DrainState.SEALED, 1, *sizes, None, now, now, None)
