"""`ilyama lineages`: look at lineages, pause and resume them."""

from collections.abc import Callable, Sequence

import msgspec
import typer
from rich.markup import escape
from rich.table import Table

from ilyama_resources.postgres.lineages import LineageEntry, LineageFilter, LineagePlace
from ilyama_service import lineages
from ilyama_service.cli.consoles import console
from ilyama_service.cli.records import actor, changed, records, safe

_RELEASED = "A running platform releases what was staged by itself; else `ilyama drain` does."


def list_lineages(wanted: LineageFilter, *, limit: int, as_json: bool) -> None:
    """Print lineages with their state and what is staged of them."""
    with records() as (_, gateway), gateway.transaction() as tx:
        found = tx.lineages.page(wanted, limit=limit)
    if as_json:
        for entry in found:
            typer.echo(msgspec.json.encode(entry._asdict()).decode())
        return
    console.print(_table(found) if found else "No such lineage.", highlight=False)


def _table(entries: Sequence[LineageEntry]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    numbers = ("staged rows", "staged bytes")
    for name in ("device", "table", "state", "since", *numbers):
        table.add_column(name, justify="right" if name in numbers else "left", overflow="fold")
    for entry in entries:
        table.add_row(
            escape(safe(entry.device_id)),
            escape(safe(entry.source_table)),
            f"paused: {', '.join(entry.pauses)}" if entry.pauses else "active",
            f"{entry.paused_since:%Y-%m-%d %H:%M}" if entry.paused_since else "",
            f"{entry.staged_rows:,}",
            f"{entry.staged_bytes:,}",
        )
    return table


def show(place: LineagePlace) -> None:
    """Print one lineage, and why it is paused."""
    with records() as (_, gateway), gateway.transaction() as tx:
        entry, pauses = lineages.known(tx, place), tx.pauses.of(*place)
    console.print(f"device  {safe(entry.device_id)}", markup=False, highlight=False)
    console.print(f"table   {safe(entry.source_table)}", markup=False, highlight=False)
    console.print(f"state   {'paused' if pauses else 'active'}", highlight=False)
    for pause in pauses:
        note = f": {safe(pause.note)}" if pause.note else ""
        told = f"pause   {pause.reason} since {pause.since:%Y-%m-%d %H:%M:%S} UTC{note}"
        console.print(told, markup=False, highlight=False)
    staged = f"staged  {entry.staged_rows:,} rows, {entry.staged_bytes:,} bytes"
    console.print(staged, highlight=False)


def pause(place: LineagePlace, note: str | None) -> None:
    """Pause a lineage."""
    changed(lambda tx: lineages.pause(tx, place, note=note, actor=actor()))
    console.print("Paused. What comes of it is staged from the next drain on.", highlight=False)


def resume(place: LineagePlace) -> None:
    """Take the operator's pause away."""
    _act(lineages.resume, place)


def reset_materialization(place: LineagePlace) -> None:
    """Close an open circuit."""
    _act(lineages.reset_materialization, place)


def reset_sequence(place: LineagePlace) -> None:
    """Let the numbers of telemetry batches begin anew."""
    changed(lambda tx: lineages.reset_sequence(tx, place, actor=actor()))
    console.print("The next drain of the device begins a new era of numbers.", highlight=False)


def retry_errors() -> None:
    """Try again what broke the engine or could not be materialized."""
    rows = changed(lambda tx: lineages.retry_errors(tx, actor=actor()))
    told = "A running platform takes them up by itself; else `ilyama drain` does."
    console.print(f"{rows:,} rows are tried again. {told}", highlight=False)


def _act(deed: Callable[..., LineageEntry], place: LineagePlace) -> None:
    after = changed(lambda tx: deed(tx, place, actor=actor()))
    if after.pauses:
        told = f"It is still paused: {', '.join(after.pauses)}."
    else:
        told = f"It is active. {_RELEASED}" if after.staged_rows else "It is active."
    console.print(told, highlight=False)
