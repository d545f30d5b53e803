"""`ilyama audit`: who did what to which resource."""

from typing import Any

import msgspec
from rich.markup import escape
from rich.table import Table

from ilyama_resources.postgres.audit import AuditEntry, AuditFilter
from ilyama_service.cli.consoles import console
from ilyama_service.cli.records import records, safe


def list_audit(wanted: AuditFilter, *, limit: int, as_json: bool) -> None:
    """List what operators did, newest first."""
    with records() as (_, gateway), gateway.transaction() as tx:
        entries = tx.audit.page(wanted, limit=limit)
    if as_json:
        for entry in entries:
            line = msgspec.json.encode(entry._asdict()).decode()
            console.print(line, markup=False, highlight=False, soft_wrap=True)
    else:
        console.print(_table(entries) if entries else "Nobody has done anything yet.")


def _table(entries: list[AuditEntry]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("when", "who", "what", "resource", "and it became"):
        table.add_column(name, overflow="fold")
    for entry in entries:
        table.add_row(
            entry.at.strftime("%Y-%m-%d %H:%M:%S"),
            *(escape(safe(word)) for word in (entry.actor, entry.verb, entry.resource)),
            escape(safe(_told(entry.new))),
        )
    return table


def _told(new: Any) -> str:
    """What a resource became, without what was left empty."""
    if not isinstance(new, dict):
        return "" if new is None else str(new)
    return ", ".join(
        f"{name}: {value if isinstance(value, str) else msgspec.json.encode(value).decode()}"
        for name, value in new.items()
        if value not in (None, [], {}, "")
    )
