"""The newest datapoint of every field that a device has sent in one drain."""

from __future__ import annotations

import numpy as np

from ilyama_protocol.intake.datapoints import TELEMETRY_SOURCE, Points
from ilyama_protocol.intake.field_series import INSTANCE, FieldSeries
from ilyama_protocol.intake.outcomes import AcceptedSamples, CurrentValue, CurrentValues


class NewestSamples:
    """Follows the accepted telemetry of one device; ts alone decides what is newest."""

    def __init__(self, series: FieldSeries) -> None:
        self._series = series
        self._values: dict[str, CurrentValue] = {}

    def advance(self, accepted: AcceptedSamples) -> None:
        """Take in the datapoints of a batch."""
        for points in accepted.points:
            if points.quarantine_reason is None and points.values:
                newest = self._newest(accepted, points)
                standing = self._values.get(points.key)
                if standing is None or newest.outdoes(standing):
                    self._values[points.key] = newest

    def values(self) -> CurrentValues:
        """The current values that follow."""
        return {key: {INSTANCE: value} for key, value in self._values.items()}

    def _newest(self, accepted: AcceptedSamples, points: Points) -> CurrentValue:
        moments = accepted.moments[np.fromiter(points.rows, np.int64, len(points.rows))]
        place = int(moments.argmax())
        return CurrentValue(
            points.kind,
            points.values[place],
            int(moments[place]),
            self._series.of(points.key),
            accepted.batch.source_table,
            TELEMETRY_SOURCE,
        )
