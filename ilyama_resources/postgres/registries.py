"""Registries that fill themselves: what a drain mentions exists afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from hashlib import sha256

from sqlalchemy import Connection, select
from sqlalchemy.dialects.postgresql import insert

from ilyama_resources.postgres.copying import shown
from ilyama_resources.postgres.pairs import those_not_in
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

    def unknown_components(self, component_ids: Iterable[str]) -> set[str]:
        """Those of the ids that are no component's."""
        query = those_not_in(COMPONENT.c.component_id, component_ids)
        return {*self._connection.scalars(query)}

    def kinds_of(self, names: Iterable[str]) -> dict[str, str]:
        """The kinds of the datapoint keys that exist among those named."""
        by_hash = {_hash_of(name): name for name in names}
        query = select(DATAPOINT_TYPE.c.name_hash, DATAPOINT_TYPE.c.kind)
        rows = self._connection.execute(query.where(DATAPOINT_TYPE.c.name_hash.in_([*by_hash])))
        return {by_hash[name_hash]: kind for name_hash, kind in rows}

    def ensure_keys(self, kinds: Mapping[str, str]) -> None:
        """Create the datapoint keys that do not exist yet, with the kind first seen."""
        common = {"scope": "org", "auto": True, "created_at": datetime.now(UTC)}
        rows = [
            {"name_hash": _hash_of(name), "name": shown(name), "kind": kind} | common
            for name, kind in sorted(kinds.items())
        ]
        if rows:
            self._connection.execute(insert(DATAPOINT_TYPE).on_conflict_do_nothing(), rows)


def _hash_of(name: str) -> str:
    return sha256(name.encode()).hexdigest()
