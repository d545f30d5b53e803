"""Row changes of a day, rebuilt as the accepted rows they were."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from ilyama_assets.drains.rebuilding import decided_rows
from ilyama_protocol.governance.bindings import USUAL
from ilyama_protocol.intake.datapoints import affinities_of, datapoints_of
from ilyama_protocol.intake.known_keys import KnownKeys
from ilyama_protocol.intake.outcomes import AcceptedRows
from ilyama_protocol.intake.state import DeviceState


def rebuilt_rows(device_id: str, state: DeviceState, changes: pa.Table) -> Iterator[AcceptedRows]:
    """The accepted rows of every message, in order of arrival."""
    in_order = changes.sort_by([("received_at", "ascending"), ("row_index", "ascending")])
    keys = KnownKeys(device_id)
    for decided in decided_rows(device_id, in_order) if changes.num_rows else ():
        batch, received_at = decided.batch, decided.arrival.received_at
        lineage = state.lineage(batch.source_table)
        schema = lineage.schema_at(batch.schema_hash, received_at)
        binding = lineage.accepted_schemas().get(batch.schema_hash, USUAL).at(received_at)
        affinities = None if schema is None else affinities_of(schema)
        yield AcceptedRows(
            decided.arrival,
            batch.without_contents(),
            decided.rows,
            decided.late,
            keys,
            keys.numbers(batch.pk_text),
            datapoints_of(batch, decided.rows, affinities, binding),
        )
