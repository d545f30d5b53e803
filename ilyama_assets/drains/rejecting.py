"""Rejections on their way to Postgres: what a drain refused, and what became of replays."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ilyama_assets.tables import REJECTED_BATCHES
from ilyama_resources.postgres.copying import SHOWN_NUL
from ilyama_resources.postgres.rejections import FOUND

PORTION_ROWS = 20_000

REJECTIONS_SCHEMA = pa.schema(
    [
        pa.field("payload_bytes", pa.int64())
        if name == "payload_bytes"
        else REJECTED_BATCHES.schema.field(name)
        for name in FOUND
    ]
)
"""Of a rejection, everything but its bytes."""

OUTCOMES_SCHEMA = pa.schema(
    [
        ("segment_id", pa.string()),
        ("position", pa.int64()),
        ("outcome", pa.string()),
        ("code", pa.string()),
    ]
)


def without_bytes(rejected: pa.Table) -> pa.Table:
    """Rows of `rejected_batches` as Postgres is told of them; unknown words are the empty text."""
    columns = []
    for field in REJECTIONS_SCHEMA:
        if field.name == "payload_bytes":
            column = pc.binary_length(rejected["payload"]).cast(field.type)
        else:
            column = rejected[field.name].cast(field.type)
        columns.append(_shown(column) if pa.types.is_string(field.type) else column)
    return pa.table(columns, schema=REJECTIONS_SCHEMA)


def encoded_rejections(rejected: Sequence[pa.Table]) -> list[bytes]:
    """What was refused, as Arrow streams of a bounded size."""
    return list(_streams(map(without_bytes, rejected)))


def encoded_outcomes(ledger: Sequence[pa.Table], segments: Collection[str]) -> list[bytes]:
    """What became of each message of some segments, as Arrow streams of a bounded size."""
    names, wanted = OUTCOMES_SCHEMA.names, pa.array(sorted(segments), pa.string())
    outcomes = (lines.select(names).cast(OUTCOMES_SCHEMA) for lines in ledger)
    return list(_streams(o.filter(pc.is_in(o["segment_id"], wanted)) for o in outcomes))


def decoded(streams: Iterable[bytes], schema: pa.Schema) -> pa.Table:
    """The rows of all streams."""
    tables = [pa.ipc.open_stream(stream).read_all() for stream in streams if stream]
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _shown(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.replace_substring(pc.fill_null(texts, ""), "\0", SHOWN_NUL)


def _streams(tables: Iterable[pa.Table]) -> Iterator[bytes]:
    packed = pa.ipc.IpcWriteOptions(compression="zstd")
    for table in tables:
        for batch in table.combine_chunks().to_batches(PORTION_ROWS):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema, options=packed) as writer:
                writer.write_batch(batch)
            yield bytes(sink.getvalue().to_pybytes())
