"""Registries that fill themselves: what a drain mentions exists afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from hashlib import sha256

from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import insert

from ilyama_resources.postgres.copying import shown
from ilyama_resources.postgres.schema import COMPONENT, DATAPOINT_TYPE


class Registries:
    """Components and datapoint keys."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def ensure_components(self, component_ids: Iterable[str]) -> None:
        """Create the components that do not exist yet."""
        now = datetime.now(UTC)
        rows = [{"component_id": c, "auto": True, "created_at": now} for c in component_ids]
        if rows:
            self._connection.execute(insert(COMPONENT).on_conflict_do_nothing(), rows)

    def ensure_keys(self, kinds: Mapping[str, str]) -> None:
        """Create the datapoint keys that do not exist yet, with the kind first seen."""
        common = {"scope": "org", "auto": True, "created_at": datetime.now(UTC)}
        rows = [
            {"name_hash": sha256(name.encode()).hexdigest(), "name": shown(name), "kind": kind}
            | common
            for name, kind in kinds.items()
        ]
        if rows:
            self._connection.execute(insert(DATAPOINT_TYPE).on_conflict_do_nothing(), rows)
