"""Current values on their way to Postgres: the newest that a drain has seen, as Arrow columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ilyama_assets.drains.datapoint_ids import datapoint_ids
from ilyama_protocol.intake.datapoints import OWNER_KIND, PROVENANCE, DatapointKind
from ilyama_protocol.intake.identities import identities
from ilyama_protocol.intake.outcomes import CurrentValues

POLICY = "latest"
PORTION_ROWS = 20_000
NUL, SHOWN_NUL = "\0", "\N{REPLACEMENT CHARACTER}"
"""Postgres cannot hold U+0000 in a text; it is shown as U+FFFD there."""

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
        ("datapoint_id", pa.string()),
        ("source_table", pa.string()),
    ]
)

_SMALL = pa.ipc.IpcWriteOptions(compression="zstd")
"""They go from the task to the driver and into the seal: better made small by the task."""

_WORDS = ("owner_kind", "owner_id", "key", "provenance", "kind", "source", "policy", "source_table")
"""Columns with few words for many values; on their way they carry each word once."""


def projected(devices: Sequence[tuple[str, CurrentValues]]) -> pa.Table:
    """The current values of devices."""
    found = [
        (device_id, key, of_key)
        for device_id, current in devices
        for key, of_key in current.items()
    ]
    counts = np.array([len(of_key) for _, _, of_key in found], np.int64)
    values = [*chain.from_iterable(of_key.values() for _, _, of_key in found)]
    kinds, contents = [*map(_KIND, values)], [*map(_CONTENT, values)]
    metric = np.array([kind is DatapointKind.METRIC for kind in kinds], np.bool_)
    ts = np.fromiter(map(_TS, values), np.int64, len(values))
    series = np.fromiter(map(_SERIES, values), np.uint64, len(values))
    columns: dict[str, Any] = {
        "identity": [*chain.from_iterable(identities(*place) for place in found)],
        "owner_id": _repeated([device_id for device_id, _, _ in found], counts),
        "key": _shown(_repeated([key for _, key, _ in found], counts)),
        "instance": _shown([*chain.from_iterable(of_key for _, _, of_key in found)]),
        "kind": [*map(_NAMES.__getitem__, kinds)],
        "value_double": pa.array(contents, pa.float64(), mask=~metric),
        "value_text": _shown(pa.array(contents, pa.string(), mask=metric)),
        "ts": pa.array(ts).cast(PROJECTION_SCHEMA.field("ts").type),
        "datapoint_id": datapoint_ids(ts, series),
        "source": [*map(_SOURCE, values)],
        "source_table": [*map(_SOURCE_TABLE, values)],
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


_KIND, _CONTENT, _TS = attrgetter("kind"), attrgetter("value"), attrgetter("ts")
_SERIES, _SOURCE = attrgetter("series"), attrgetter("source")
_SOURCE_TABLE = attrgetter("source_table")
_NAMES = {kind: kind.value for kind in DatapointKind}
_CONSTANTS = {
    "owner_kind": OWNER_KIND,
    "provenance": PROVENANCE,
    "policy": POLICY,
}


def encoded(tables: Sequence[pa.Table]) -> Iterator[bytes]:
    """Tables of current values as Arrow streams of a bounded size."""
    if not tables:
        return
    for batch in pa.concat_tables(tables).combine_chunks().to_batches(PORTION_ROWS):
        for name in _WORDS:
            place = batch.schema.get_field_index(name)
            batch = batch.set_column(place, name, batch.column(place).dictionary_encode())
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema, options=_SMALL) as writer:
            writer.write_batch(batch)
        yield bytes(sink.getvalue().to_pybytes())


def decoded(streams: Iterable[bytes]) -> pa.Table:
    """The current values of all streams."""
    tables = [
        _of_today(pa.ipc.open_stream(stream).read_all()).cast(PROJECTION_SCHEMA)
        for stream in streams
        if stream
    ]
    return pa.concat_tables(tables) if tables else PROJECTION_SCHEMA.empty_table()


def one_per_identity(values: pa.Table) -> pa.Table:
    """The values that are current among several of one identity, as a replay may give them."""
    if pc.count_distinct(values["identity"]).as_py() == values.num_rows:
        return values
    order = [("ts", "descending"), ("source", "ascending"), ("kind", "ascending")]
    ranked = values.sort_by(order)
    numbered = ranked.append_column("place", pa.array(range(ranked.num_rows)))
    first = numbered.group_by("identity").aggregate([("place", "min")])
    return ranked.take(first["place_min"])


def _of_today(values: pa.Table) -> pa.Table:
    """Seals of older builds hold whole contributors, of one datapoint each."""
    place = values.schema.get_field_index("contributors")
    if place < 0:
        return values
    told = pc.extract_regex(values.column(place), '"datapoint_id":"(?P<id>[^"]+)"')
    return values.set_column(place, "datapoint_id", pc.struct_field(told, "id"))


def _repeated(texts: Sequence[str], counts: npt.NDArray[np.int64]) -> pa.Array:
    return pa.array(texts, pa.string()).take(pa.array(np.repeat(np.arange(len(texts)), counts)))


def _shown(texts: Sequence[object] | pa.Array) -> pa.Array:
    return pc.replace_substring(pa.array(texts, pa.string()), NUL, SHOWN_NUL)
