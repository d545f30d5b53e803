"""Current values on their way to Postgres: the newest that a drain has seen, as Arrow columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ilyama_assets.drains.datapoint_ids import datapoint_ids
from ilyama_protocol.intake.datapoints import OWNER_KIND, PROVENANCE, SOURCE, DatapointKind
from ilyama_protocol.intake.identities import identities
from ilyama_protocol.intake.outcomes import CurrentValue

POLICY = "latest"
PORTION_ROWS = 20_000
NUL, SHOWN_NUL = "\0", "\N{REPLACEMENT CHARACTER}"
"""Postgres cannot hold U+0000 in a text; it is shown as U+FFFD there."""

CurrentOfDevice = Mapping[tuple[str, str], CurrentValue]

PROJECTION_SCHEMA = pa.schema(
    [
        ("identity", pa.string()),
        ("owner_kind", pa.string()),
        ("owner_id", pa.string()),
        ("key", pa.string()),
        ("instance", pa.string()),
        ("provenance", pa.string()),
        ("kind", pa.string()),
        ("value_double", pa.float64()),
        ("value_text", pa.string()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("source", pa.string()),
        ("policy", pa.string()),
        ("contributors", pa.string()),
        ("source_table", pa.string()),
    ]
)


def projected(devices: Sequence[tuple[str, CurrentOfDevice]]) -> pa.Table:
    """The current values of devices."""
    places = [place for _, current in devices for place in current]
    values = [value for _, current in devices for value in current.values()]
    metric = [value.kind is DatapointKind.METRIC for value in values]
    ts = np.fromiter((value.ts for value in values), np.int64, len(values))
    series = np.fromiter((value.series for value in values), np.uint64, len(values))
    columns: dict[str, Any] = {
        "identity": [name for device in devices for name in identities(*device)],
        "owner_id": [device_id for device_id, current in devices for _ in current],
        "key": _shown([key for key, _ in places]),
        "instance": _shown([instance for _, instance in places]),
        "kind": [value.kind.value for value in values],
        "value_double": [v.value if m else None for v, m in zip(values, metric, strict=True)],
        "value_text": _shown([None if m else v.value for v, m in zip(values, metric, strict=True)]),
        "ts": pa.array(ts).cast(PROJECTION_SCHEMA.field("ts").type),
        "contributors": _contributors(datapoint_ids(ts, series)),
        "source_table": [value.source_table for value in values],
    }
    for name, word in _CONSTANTS.items():
        columns[name] = pa.repeat(word, len(values))
    arrays = [
        pa.array(columns[field.name], field.type)
        if isinstance(columns[field.name], list)
        else columns[field.name]
        for field in PROJECTION_SCHEMA
    ]
    return pa.Table.from_arrays(arrays, schema=PROJECTION_SCHEMA)


_CONSTANTS = {
    "owner_kind": OWNER_KIND,
    "provenance": PROVENANCE,
    "source": SOURCE,
    "policy": POLICY,
}


def encoded(tables: Sequence[pa.Table]) -> Iterator[bytes]:
    """Tables of current values as Arrow streams of a bounded size."""
    if not tables:
        return
    for batch in pa.concat_tables(tables).combine_chunks().to_batches(PORTION_ROWS):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, PROJECTION_SCHEMA) as writer:
            writer.write_batch(batch)
        yield bytes(sink.getvalue().to_pybytes())


def decoded(streams: Iterable[bytes]) -> pa.Table:
    """The current values of all streams."""
    tables = [pa.ipc.open_stream(stream).read_all() for stream in streams if stream]
    return pa.concat_tables(tables) if tables else PROJECTION_SCHEMA.empty_table()


def _shown(texts: Sequence[object]) -> pa.Array:
    return pc.replace_substring(pa.array(texts, pa.string()), NUL, SHOWN_NUL)


def _contributors(ids: pa.Array) -> pa.Array:
    """What a current value rests on: with one source, the datapoint it is."""
    head, tail = f'[{{"source":"{SOURCE}","datapoint_id":"', '"}]'
    return pc.binary_join_element_wise(head, ids, tail, "")
