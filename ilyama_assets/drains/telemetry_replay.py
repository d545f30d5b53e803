"""Telemetry samples of a day, rebuilt as the accepted batches they were."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa

from ilyama_assets.drains.replayed_messages import (
    StoredLine,
    affinities_then,
    arrival_of,
    by_message,
)
from ilyama_protocol.contents import MixedContents
from ilyama_protocol.intake.field_series import FieldSeries
from ilyama_protocol.intake.outcomes import AcceptedSamples
from ilyama_protocol.intake.sampled_points import SampledPoints
from ilyama_protocol.intake.state import NO_TS, DeviceState
from ilyama_protocol.limits import Limits
from ilyama_protocol.messages import TelemetryBatch


def rebuilt_samples(
    device_id: str, state: DeviceState, samples: pa.Table, limits: Limits
) -> Iterator[AcceptedSamples]:
    """The accepted batches, in order of arrival; a moment that comes again gives nothing."""
    series, made = FieldSeries(device_id), SampledPoints(limits, {})
    latest: dict[str, int] = {}
    for rows in by_message(samples):
        batch, received_at = _batch(rows), rows[0]["received_at"]
        table = batch.source_table
        new = made.new(
            batch,
            received_at=received_at,
            affinities=affinities_then(state, rows[0]),
            latest=latest.get(table, NO_TS),
        )
        made.note(batch, new.points)
        latest[table] = max(latest.get(table, NO_TS), made.latest(batch, received_at))
        arrival = arrival_of(device_id, rows[0])
        yield AcceptedSamples(arrival, batch.without_contents(), series, new.points)


def _batch(rows: Sequence[StoredLine]) -> TelemetryBatch:
    first, moments = rows[0], [row["ts"] for row in rows]
    return TelemetryBatch(
        batch_id=first["batch_id"],
        batch_seq=first["batch_seq"],
        source_table=first["source_table"],
        schema_hash=first["schema_hash"],
        cursor_start_us=min(moments),
        cursor_end_us=max(moments),
        schema_columns=None,
        ts_us=array("q", moments),
        row_id=[row["row_id"] for row in rows],
        fields_text=[row["fields"] for row in rows],
        contents=MixedContents([msgspec.json.decode(row["fields"]) for row in rows]),
    )
