"""`ilyama conflicts`: other content under keys that were taken."""

import msgspec
from rich.markup import escape
from rich.table import Table

from ilyama_resources.delta.key_conflicts import ConflictFilter, ListedConflict, conflicts_page
from ilyama_resources.settings import load_settings
from ilyama_service.cli.consoles import console, name_unreadable
from ilyama_service.cli.records import safe


def list_conflicts(wanted: ConflictFilter, *, limit: int, as_json: bool) -> None:
    """List key conflicts, newest day first."""
    found = conflicts_page(load_settings().warehouse, wanted, after=None, limit=limit)
    conflicts = found.conflicts
    name_unreadable(found.unreadable)
    if as_json:
        for conflict in conflicts:
            line = msgspec.json.encode(conflict.told()).decode()
            console.print(line, markup=False, highlight=False, soft_wrap=True)
    else:
        console.print(_table(conflicts) if conflicts else "No key has come with other content.")


def _table(conflicts: list[ListedConflict]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("day", "device", "table", "kind", "key", "arrivals"):
        table.add_column(name, overflow="fold")
    for conflict in conflicts:
        place = conflict.place
        words = (place.device_id, place.source_table, place.kind, place.key)
        table.add_row(
            place.day.isoformat(),
            *(escape(safe(word)) for word in words),
            f"{conflict.arrivals:,}",
        )
    return table
