"""`ilyama drains`: list drains and their state, and release one that is held."""

import msgspec
import typer
from rich.table import Table

from ilyama_resources.postgres import Gateway
from ilyama_resources.postgres.drains import Drain
from ilyama_resources.postgres.segments import PendingDay
from ilyama_service.cli.consoles import console, errors
from ilyama_service.cli.records import actor, records

_NOT_HELD = 1


def list_drains(*, limit: int, as_json: bool, release: int | None) -> None:
    """List drains, after releasing one when that was asked for."""
    with records() as (_, gateway):
        if release is not None:
            _release(gateway, release)
        with gateway.transaction() as tx:
            newest, pending = tx.drains.page(limit=limit), tx.segments.pending()
    if as_json:
        for drain in newest:
            typer.echo(msgspec.json.encode(drain._asdict()).decode())
    else:
        show(newest, pending)


def _release(gateway: Gateway, drain_id: int) -> None:
    with gateway.transaction() as tx:
        released = tx.drains.release(drain_id)
        if released:
            tx.audit.record(actor=actor(), verb="release", resource=f"drain/{drain_id}")
        tx.commit()
    if not released:
        errors.print(f"drain {drain_id} is not held.", highlight=False)
        raise typer.Exit(_NOT_HELD)


def show(newest: list[Drain], pending: list[PendingDay]) -> None:
    """Print drains, their notes, and what waits."""
    console.print(_table(newest) if newest else "No drain yet.")
    for drain in newest:
        if drain.note:
            console.print(f"drain {drain.drain_id}: {drain.note}", markup=False, highlight=False)
    for day in pending:
        console.print(
            f"waiting: {day.segments:,} segments of {day.day}, {day.messages:,} messages",
            highlight=False,
        )


def _table(newest: list[Drain]) -> Table:
    """The drains in the 80 columns of a terminal; notes are longer and stand below."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("drain", "day", "state", "origin", "messages", "bytes", "tries", "closed"):
        table.add_column(name, justify="right" if name in ("messages", "bytes") else "left")
    for drain in newest:
        closed = drain.closed_at.strftime("%Y-%m-%d %H:%M") if drain.closed_at else ""
        table.add_row(
            str(drain.drain_id),
            drain.day.isoformat(),
            drain.state,
            drain.origin,
            f"{drain.messages:,}",
            f"{drain.bytes:,}",
            str(drain.attempts),
            closed,
        )
    return table
