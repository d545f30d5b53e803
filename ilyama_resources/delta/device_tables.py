"""Device tables in the warehouse: where each lies, and which columns it has.

There is one per project and source table. What is known of a column, its name on the device and its
affinity, is kept in the column's comment; what a table mirrors, in the table's description.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from deltalake import DeltaTable

from ilyama_protocol.canonical import canonical_json
from ilyama_protocol.fingerprint import Affinity
from ilyama_protocol.mirror_names import DEVICE_COLUMN, OWN_PREFIX, directory_name
from ilyama_protocol.mirror_types import MirrorType, Mixed, Shared

DEVICE_TABLES: Final = "device_tables"
WITHOUT_PROJECT: Final = "projectless"
"""The directory of devices without a project; those of projects have a hyphen here."""

_OF_DELTA: Final = {
    "long": MirrorType.LONG,
    "double": MirrorType.DOUBLE,
    "string": MirrorType.TEXT,
}


class Mirror(msgspec.Struct, frozen=True, order=True):
    """Which device table is meant; project None: of devices that belong to none."""

    source_table: str
    project_id: str | None = None

    @property
    def name(self) -> str:
        """The name of the table in the warehouse, which is its directory."""
        project = WITHOUT_PROJECT
        if self.project_id is not None:
            project = f"project-{directory_name(self.project_id)}"
        return f"{DEVICE_TABLES}/{project}/{directory_name(self.source_table)}"

    @property
    def description(self) -> str:
        """What the table says of itself."""
        return canonical_json(msgspec.structs.asdict(self))


class MirrorColumn(NamedTuple):
    """A column of a device table; affinity None: nothing but its values is known."""

    original: str
    name: str
    affinity: Shared | None
    type: MirrorType

    @property
    def comment(self) -> str:
        """What the column says of itself."""
        return canonical_json({"column": self.original, "affinity": self.affinity})


class _Comment(msgspec.Struct):
    column: str
    affinity: str | None

    @property
    def shared(self) -> Shared | None:
        if self.affinity is None:
            return None
        return Mixed.MIXED if self.affinity == Mixed.MIXED else Affinity(self.affinity)


_comments = msgspec.json.Decoder(_Comment)
_descriptions = msgspec.json.Decoder(Mirror)


def mirror_names(root: Path) -> list[str]:
    """The names of all device tables that there are."""
    logs = root.glob(f"{DEVICE_TABLES}/*/*/_delta_log")
    return sorted(str(log.parent.relative_to(root)) for log in logs)


def mirror_at(table: DeltaTable) -> Mirror:
    """Which device table this one is."""
    return _descriptions.decode(table.metadata().description or "{}")


def columns_of(table: DeltaTable) -> list[MirrorColumn]:
    """The columns that come from the devices, in their order."""
    return list(_columns(table))


def _columns(table: DeltaTable) -> Iterator[MirrorColumn]:
    for field in table.schema().fields:
        if field.name == DEVICE_COLUMN or field.name.startswith(OWN_PREFIX):
            continue
        told = _comments.decode(str(field.metadata["comment"]))
        yield MirrorColumn(told.column, field.name, told.shared, _OF_DELTA[field.type.type])
