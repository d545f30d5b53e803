"""Current values on their way to Postgres: the newest that a drain has seen, as Arrow columns.

A row of them is an instance, with lists that tell the values of its keys side by side.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, count, pairwise
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ilyama_assets.drains.datapoint_ids import datapoint_id_bytes
from ilyama_assets.drains.older_seals import is_of_older_build, told_by_value
from ilyama_protocol.intake.datapoints import OWNER_KIND, PROVENANCE, DatapointKind
from ilyama_protocol.intake.identities import IDENTITY_BYTES, family_of, identities
from ilyama_protocol.intake.outcomes import CurrentValue, CurrentValues
from ilyama_resources.postgres.copying import SHOWN_NUL

PORTION_VALUES = 20_000
_MOMENT = pa.timestamp("us", tz="UTC")
_UUID = pa.binary(IDENTITY_BYTES)

VALUE_SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("kind", pa.string()),
        ("value_double", pa.float64()),
        ("value_text", pa.string()),
        ("ts", _MOMENT),
        ("source", pa.string()),
        ("datapoint_id", _UUID),
        ("source_table", pa.string()),
    ]
)
_HEAD_SCHEMA = pa.schema(
    [
        ("identity", _UUID),
        ("owner_kind", pa.string()),
        ("owner_id", pa.string()),
        ("provenance", pa.string()),
        ("family", pa.string()),
        ("instance", pa.string()),
    ]
)
PROJECTION_SCHEMA = pa.schema(
    [
        *_HEAD_SCHEMA,
        ("oldest", _MOMENT),
        ("newest", _MOMENT),
        *((field.name, pa.list_(field.type)) for field in VALUE_SCHEMA),
    ]
)

_SMALL = pa.ipc.IpcWriteOptions(compression="zstd")
"""They go from the task to the driver and into the seal: better made small by the task."""

_Places = npt.NDArray[np.int64]


class _Heads:
    """The instances that values belong to, numbered as they are first met."""

    def __init__(self) -> None:
        self._instances: list[str] = []
        self._identities: list[bytes] = []
        self._owners: list[tuple[str, str, int]] = []
        self._numbers: dict[tuple[str, str], dict[str, int]] = {}

    def places(self, device_id: str, key: str, instances: Collection[str]) -> Iterator[int]:
        """The numbers of the instances of a key."""
        family = family_of(key)
        numbers = self._numbers.setdefault((device_id, family), {})
        new = [instance for instance in instances if instance not in numbers]
        if new:
            numbers.update(zip(new, count(len(self._instances))))
            self._instances += new
            self._identities += identities(device_id, family, new)
            self._owners.append((device_id, family, len(new)))
        return map(numbers.__getitem__, instances)

    def table(self) -> pa.Table:
        """What is said once of all values of an instance."""
        counts = [new for _, _, new in self._owners]
        columns = {
            "identity": pa.array(self._identities, _UUID),
            "owner_kind": pa.repeat(OWNER_KIND, len(self._instances)),
            "owner_id": _repeated([device_id for device_id, _, _ in self._owners], counts),
            "provenance": pa.repeat(PROVENANCE, len(self._instances)),
            "family": _shown(_repeated([family for _, family, _ in self._owners], counts)),
            "instance": _shown(pa.array(self._instances, pa.string())),
        }
        return pa.table(columns, schema=_HEAD_SCHEMA)


def projected(devices: Sequence[tuple[str, CurrentValues]]) -> pa.Table:
    """The current values of devices."""
    heads = _Heads()
    found = [
        (heads.places(device_id, key, current[key]), key, current[key])
        for device_id, current in devices
        for key in sorted(current)
    ]
    values = [*chain.from_iterable(of_key.values() for _, _, of_key in found)]
    places = np.fromiter(chain.from_iterable(numbers for numbers, _, _ in found), np.int64)
    keys = _repeated([key for _, key, _ in found], [len(of_key) for _, _, of_key in found])
    in_order = np.argsort(places, kind="stable")
    told = _told(keys, values).take(pa.array(in_order))
    return _packed(told, places[in_order], heads.table())


def _told(keys: pa.Array, values: Sequence[CurrentValue]) -> pa.Table:
    kinds, contents = [*map(_KIND, values)], [*map(_CONTENT, values)]
    metric = np.array([kind is DatapointKind.METRIC for kind in kinds], np.bool_)
    ts = np.fromiter(map(_TS, values), np.int64, len(values))
    series = np.fromiter(map(_SERIES, values), np.uint64, len(values))
    columns: dict[str, Any] = {
        "key": _shown(keys),
        "kind": pa.array([*map(_NAMES.__getitem__, kinds)], pa.string()),
        "value_double": pa.array(contents, pa.float64(), mask=~metric),
        "value_text": _shown(pa.array(contents, pa.string(), mask=metric)),
        "ts": pa.array(ts).cast(_MOMENT),
        "source": pa.array([*map(_SOURCE, values)], pa.string()),
        "datapoint_id": datapoint_id_bytes(ts, series),
        "source_table": pa.array([*map(_SOURCE_TABLE, values)], pa.string()),
    }
    return pa.table(columns, schema=VALUE_SCHEMA)


_KIND, _CONTENT, _TS = attrgetter("kind"), attrgetter("value"), attrgetter("ts")
_SERIES, _SOURCE = attrgetter("series"), attrgetter("source")
_SOURCE_TABLE = attrgetter("source_table")
_NAMES = {kind: kind.value for kind in DatapointKind}


def _packed(values: pa.Table, places: _Places, heads: pa.Table) -> pa.Table:
    """Values as lists; places tell the head of each and rise, and each head has some."""
    begins = np.flatnonzero(np.diff(places, prepend=-1))
    if not len(begins):
        return PROJECTION_SCHEMA.empty_table()
    offsets = pa.array(np.append(begins, len(places)), pa.int32())
    moments = values["ts"].combine_chunks().cast(pa.int64()).to_numpy()
    columns = {name: heads[name] for name in heads.column_names}
    columns["oldest"] = pa.array(np.minimum.reduceat(moments, begins)).cast(_MOMENT)
    columns["newest"] = pa.array(np.maximum.reduceat(moments, begins)).cast(_MOMENT)
    for name in VALUE_SCHEMA.names:
        columns[name] = pa.ListArray.from_arrays(offsets, values[name].combine_chunks())
    return pa.table(columns, schema=PROJECTION_SCHEMA)


def _unpacked(instances: pa.Table) -> tuple[pa.Table, _Places]:
    """The values of all instances, each with the place of its instance."""
    lists = {name: instances[name].combine_chunks() for name in VALUE_SCHEMA.names}
    sizes = lists["key"].value_lengths().to_numpy()
    values = {name: column.flatten() for name, column in lists.items()}
    return pa.table(values, schema=VALUE_SCHEMA), np.repeat(np.arange(len(sizes)), sizes)


def encoded(tables: Sequence[pa.Table]) -> Iterator[bytes]:
    """Tables of current values as Arrow streams of a bounded size."""
    whole = pa.concat_tables([PROJECTION_SCHEMA.empty_table(), *tables]).combine_chunks()
    upto = np.cumsum(pc.list_value_length(whole["key"]).to_numpy())
    cuts = np.arange(PORTION_VALUES, upto[-1:].sum(), PORTION_VALUES)
    bounds = np.unique([0, *np.searchsorted(upto, cuts) + 1, whole.num_rows]).tolist()
    for begin, end in pairwise(bounds):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, whole.schema, options=_SMALL) as writer:
            writer.write_table(whole.slice(begin, end - begin))
        yield bytes(sink.getvalue().to_pybytes())


def decoded(streams: Iterable[bytes]) -> pa.Table:
    """The current values of all streams."""
    tables = [_of_today(pa.ipc.open_stream(stream).read_all()) for stream in streams if stream]
    return pa.concat_tables(tables) if tables else PROJECTION_SCHEMA.empty_table()


def _of_today(told: pa.Table) -> pa.Table:
    if not is_of_older_build(told):
        return told.cast(PROJECTION_SCHEMA)
    heads = _Heads()
    places: list[int] = []
    values = []
    for device_id, instance, value in told_by_value(told):
        places += heads.places(device_id, value["key"], [instance])
        values.append(value)
    in_order = np.argsort(places, kind="stable")
    table = pa.Table.from_pylist(values, schema=VALUE_SCHEMA).take(pa.array(in_order))
    return _packed(table, np.array(places, np.int64)[in_order], heads.table())


def one_per_identity(instances: pa.Table) -> pa.Table:
    """Each instance once, with the values that are current, when a replay gives it in parts."""
    if pc.count_distinct(instances["identity"]).as_py() == instances.num_rows:
        return instances
    codes = instances["identity"].combine_chunks().dictionary_encode().indices.to_numpy()
    values, places = _unpacked(instances)
    ranked = values.append_column("code", pa.array(codes[places])).sort_by(_RANKED)
    of, keys = ranked["code"].to_numpy(), ranked["key"].combine_chunks().dictionary_encode()
    begins = np.diff(of, prepend=-1) != 0
    begins |= np.diff(keys.indices.to_numpy(), prepend=-1) != 0
    newest = ranked.filter(pa.array(begins)).drop_columns("code")
    _, first = np.unique(codes, return_index=True)
    heads = instances.select(_HEAD_SCHEMA.names).take(pa.array(first))
    return _packed(newest, of[begins], heads)


_RANKED = [
    ("code", "ascending"),
    ("key", "ascending"),
    ("ts", "descending"),
    ("source", "ascending"),
    ("kind", "ascending"),
]


def without(instances: pa.Table, lineages: Collection[tuple[str, str]]) -> pa.Table:
    """Instances without the values of some lineages."""
    if not lineages:
        return instances
    parts = (pa.Table.from_batches([batch]) for batch in instances.to_batches())
    left = (_without(part, lineages) for part in parts)
    return pa.concat_tables([PROJECTION_SCHEMA.empty_table(), *left])


def _without(instances: pa.Table, lineages: Collection[tuple[str, str]]) -> pa.Table:
    values, places = _unpacked(instances)
    owners = instances["owner_id"].take(pa.array(places)).to_pylist()
    pairs = zip(owners, values["source_table"].to_pylist(), strict=True)
    stay = np.array([pair not in lineages for pair in pairs], np.bool_)
    left, numbers = np.unique(places[stay], return_inverse=True)
    heads = instances.select(_HEAD_SCHEMA.names).take(pa.array(left))
    return _packed(values.filter(pa.array(stay)), numbers, heads)


def _repeated(texts: Sequence[str], counts: Sequence[int]) -> pa.Array:
    return pa.array(texts, pa.string()).take(pa.array(np.repeat(np.arange(len(texts)), counts)))


def _shown(texts: pa.Array) -> pa.Array:
    """Texts as Postgres can hold them: without U+0000."""
    return pc.replace_substring(texts, "\0", SHOWN_NUL)
