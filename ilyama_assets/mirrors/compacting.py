"""Few files of many in device tables: every run that takes something up adds some."""

from __future__ import annotations

from collections.abc import Iterator

from ilyama_assets.mirrors.writing import MirrorParts
from ilyama_assets.transforms.compacted import Compacted, is_small
from ilyama_resources.delta.device_tables import mirror_names


def compact_mirrors(parts: MirrorParts, *, most_files: int) -> Iterator[Compacted]:
    """Compact every device table with more small files than that."""
    for name in mirror_names(parts.warehouse.root):
        small = [file for file in parts.warehouse.files(name) if is_small(file)]
        if len(small) > most_files:
            yield _compact(parts, name)


def _compact(parts: MirrorParts, name: str) -> Compacted:
    before = parts.warehouse.files(name)
    with parts.gateway.lock(f"table {name}"):
        location = parts.warehouse.location(name)
        parts.session.sql(f"OPTIMIZE delta.`{location}`").collect()
    after = parts.warehouse.files(name)
    return Compacted(
        table=name,
        day="",
        rows=sum(file.rows for file in after),
        before=len(before),
        after=len(after),
        bytes_before=sum(file.size for file in before),
        bytes_after=sum(file.size for file in after),
    )
