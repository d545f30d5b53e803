"""The series of telemetry: one per field, hashed once for all rows of a device."""

from __future__ import annotations

from ilyama_protocol.identifiers import series_digest
from ilyama_protocol.intake.datapoints import OWNER_KIND, PROVENANCE, TELEMETRY_SOURCE

INSTANCE = ""
"""Telemetry has no primary key: there is one instance of each key."""


class FieldSeries:
    """Every datapoint key that one device has sent telemetry of, with its series."""

    def __init__(self, device_id: str) -> None:
        self._device_id = device_id
        self._digests: dict[str, int] = {}

    def of(self, key: str) -> int:
        """The 62 bits that stand for a datapoint key's series in its ids."""
        digest = self._digests.get(key)
        if digest is None:
            parts = (OWNER_KIND, self._device_id, key, INSTANCE, PROVENANCE, TELEMETRY_SOURCE)
            digest = self._digests[key] = series_digest(parts)
        return digest
