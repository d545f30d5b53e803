"""`ilyama devices`: look at the registry of devices, and change it."""

from collections.abc import Mapping, Sequence

import msgspec
import typer
from rich.markup import escape
from rich.table import Table

from ilyama_protocol.moments import utc
from ilyama_resources.postgres.devices import DeviceEntry, NewDevice
from ilyama_service import devices
from ilyama_service.cli.consoles import console
from ilyama_service.cli.records import actor, changed, records, safe
from ilyama_service.reviewing import Reviewing

_ROWS_FOLLOW = (
    "Its rows in device tables follow it with the next run of these: after new drains, or with "
    "ilyama drain."
)


def list_devices(project: str | None, *, limit: int, as_json: bool) -> None:
    """Print devices, of one project or all."""
    with records() as (_, gateway), gateway.transaction() as tx:
        found = tx.devices.page(after=None, limit=limit, project_id=project)
    if as_json:
        for entry in found:
            typer.echo(msgspec.json.encode(entry._asdict()).decode())
        return
    console.print(_table(found) if found else "No such device.", highlight=False)


def show(device_id: str) -> None:
    """Print one device."""
    with records() as (_, gateway), gateway.transaction() as tx:
        entry = devices.shown_device(tx, device_id)
    for line in _lines(entry):
        console.print(line, markup=False, highlight=False)


def chosen_id(given: str | None, topic_slug: str, device_name: str) -> str:
    """The id of a device, given one or not."""
    return devices.own_id(topic_slug, device_name) if given is None else given


def register(device: NewDevice) -> None:
    """Register a device."""
    entry = changed(lambda tx: devices.register(tx, device, actor=actor()))
    console.print(f"Registered {safe(entry.device_id)}.", markup=False, highlight=False)


def move(device_id: str, named: Mapping[str, str]) -> None:
    """Let a device belong to others."""
    if not named:
        raise typer.BadParameter("Name an --org, a --project or a --fleet; '' stands for none.")
    places = {place: name or None for place, name in named.items()}
    with records() as (settings, gateway), gateway.transaction() as tx:
        desk = Reviewing(settings.policy, most_open=settings.open_reviews_per_lineage)
        entry = devices.move(tx, device_id, places, desk=desk, actor=actor())
        tx.commit()
    console.print(f"Moved {safe(entry.device_id)}.", markup=False, highlight=False)
    if "project_id" in places:
        console.print(_ROWS_FOLLOW, highlight=False)


def _table(entries: Sequence[DeviceEntry]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("device", no_wrap=True, overflow="ignore")
    for name in ("project", "org", "fleet", "firmware", "registered"):
        table.add_column(name, overflow="fold")
    for entry in entries:
        named = (entry.project_id, entry.org_id, entry.fleet_id, entry.firmware_version)
        told = (escape(safe(word or "-")) for word in named)
        by = "by itself" if entry.auto else "by hand"
        when = f"{entry.registered_at:%Y-%m-%d} {by}"
        table.add_row(escape(safe(entry.device_id)), *told, when)
    return table


def _lines(entry: DeviceEntry) -> list[str]:
    by = "by its first message" if entry.auto else "by hand"
    clock = entry.next_received_at
    last = "nothing yet" if clock is None else f"{utc(clock - 1):%Y-%m-%d %H:%M:%S} UTC"
    return [
        f"device      {safe(entry.device_id)}",
        f"topics      {safe(entry.topic_slug)}/{safe(entry.device_name)}/sync/...",
        f"org         {safe(entry.org_id or '-')}",
        f"project     {safe(entry.project_id or '-')}",
        f"fleet       {safe(entry.fleet_id or '-')}",
        f"firmware    {safe(entry.firmware_version or 'unknown')}",
        f"registered  {entry.registered_at:%Y-%m-%d %H:%M} UTC, {by}",
        f"received    {last}",
    ]
