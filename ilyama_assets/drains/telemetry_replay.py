"""Telemetry samples of a day, rebuilt as the accepted batches they were."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from ilyama_assets.drains.rebuilding import decided_samples
from ilyama_protocol.governance.bindings import USUAL
from ilyama_protocol.intake.datapoints import affinities_of
from ilyama_protocol.intake.field_series import FieldSeries
from ilyama_protocol.intake.outcomes import AcceptedSamples
from ilyama_protocol.intake.sampled_points import SampledPoints
from ilyama_protocol.intake.state import NO_TS, DeviceState
from ilyama_protocol.limits import Limits


def rebuilt_samples(
    device_id: str, state: DeviceState, samples: pa.Table, limits: Limits
) -> Iterator[AcceptedSamples]:
    """The accepted batches, in order of arrival; a moment that comes again gives nothing."""
    series, made = FieldSeries(device_id), SampledPoints(limits, {})
    latest: dict[str, int] = {}
    in_order = samples.sort_by([("received_at", "ascending"), ("row_index", "ascending")])
    for decided in decided_samples(device_id, in_order) if samples.num_rows else ():
        batch, received_at = decided.batch, decided.arrival.received_at
        table = batch.source_table
        lineage = state.lineage(table)
        schema = lineage.schema_at(batch.schema_hash, received_at)
        new = made.new(
            batch,
            came_at=received_at,
            affinities=None if schema is None else affinities_of(schema),
            binding=lineage.accepted_schemas().get(batch.schema_hash, USUAL).at(received_at),
            latest=latest.get(table, NO_TS),
        )
        made.note(batch, new.points)
        latest[table] = max(latest.get(table, NO_TS), made.latest(batch, received_at))
        yield AcceptedSamples(decided.arrival, batch.without_contents(), series, new.points)
