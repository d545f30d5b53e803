"""Row changes of a day, rebuilt as the accepted rows they were."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from ilyama_assets.drains.rebuilding import decided_rows
from ilyama_assets.drains.shown_in import ShownIn
from ilyama_protocol.governance.bindings import Binding
from ilyama_protocol.intake.datapoints import affinities_of, datapoints_of
from ilyama_protocol.intake.known_keys import KnownKeys
from ilyama_protocol.intake.outcomes import AcceptedRows, DecidedRows
from ilyama_protocol.intake.state import DeviceState, LineageState


def rebuilt_rows(device_id: str, state: DeviceState, changes: pa.Table) -> Iterator[AcceptedRows]:
    """The accepted rows of every message, in order of arrival."""
    in_order = changes.sort_by([("received_at", "ascending"), ("row_index", "ascending")])
    keys, shown_in = KnownKeys(device_id), ShownIn(in_order)
    for decided in decided_rows(device_id, in_order) if changes.num_rows else ():
        batch, received_at = decided.batch, decided.arrival.received_at
        lineage = state.lineage(batch.source_table)
        schema = lineage.schema_at(batch.schema_hash, received_at)
        affinities = None if schema is None else affinities_of(schema)
        points = [
            found
            for binding, rows in _by_binding(lineage, decided, shown_in)
            for found in datapoints_of(batch, rows, affinities, binding)
        ]
        yield AcceptedRows(
            decided.arrival,
            batch.without_contents(),
            decided.rows,
            decided.late,
            keys,
            keys.numbers(batch.pk_text),
            points,
        )


def _by_binding(
    lineage: LineageState, decided: DecidedRows, shown_in: ShownIn
) -> Iterator[tuple[Binding, Sequence[int]]]:
    """The rows of a message by the binding that they were shown by, mostly all by one."""
    named, received_at = decided.batch.schema_hash, decided.arrival.received_at
    binding = lineage.binding_of(named)
    if binding.revision is None:
        yield binding.at(received_at), decided.rows
        return
    by_drain: dict[int, list[int]] = {}
    for row in decided.rows:
        by_drain.setdefault(shown_in.drain_of(received_at, row), []).append(row)
    for drain_id, rows in by_drain.items():
        yield binding.shown_by(drain_id).at(received_at), rows
