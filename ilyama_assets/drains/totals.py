"""Ledger totals: the lines of a drain summed by device, table, kind and outcome."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ilyama_assets.drains.encoding import ROW_COUNTS

GROUP = ("device_id", "source_table", "kind", "outcome")


def encoded_totals(ledger: Sequence[pa.Table]) -> bytes:
    """The totals of ledger lines, as an Arrow stream."""
    if not ledger:
        return b""
    lines = pa.concat_tables(ledger)
    for name in GROUP:
        plain = pc.fill_null(lines[name].cast(pa.string()), "")
        lines = lines.set_column(lines.column_names.index(name), name, plain)
    sums = [(name, "sum") for name in ROW_COUNTS]
    totals = lines.group_by(list(GROUP)).aggregate([([], "count_all"), *sums])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, totals.schema) as writer:
        writer.write_table(totals)
    return bytes(sink.getvalue().to_pybytes())
