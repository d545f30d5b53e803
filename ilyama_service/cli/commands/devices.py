"""`ilyama devices`: the words of its commands; their work is imported when they are called."""

from typing import Annotated

import typer

from ilyama_service.cli.options import HowMany, JsonLines

app = typer.Typer(
    help="Look at the registry of devices; register devices and put them into projects.",
    invoke_without_command=True,
)

DeviceId = Annotated[str, typer.Argument(metavar="DEVICE", help="The id of a device.")]
Org = Annotated[str | None, typer.Option("--org", help="The organization that it belongs to.")]
Project = Annotated[
    str | None, typer.Option("--project", help="The project; its devices share approved schemas.")
]
Fleet = Annotated[str | None, typer.Option("--fleet", help="The fleet that it belongs to.")]


@app.callback()
def _list_by_default(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        list_devices()


@app.command("list")
def list_devices(
    project: Annotated[str | None, typer.Option(help="Those of this project.")] = None,
    limit: HowMany = 100,
    as_json: JsonLines = False,
) -> None:
    """List devices in the order of their ids."""
    from ilyama_service.cli import devices

    devices.list_devices(project, limit=limit, as_json=as_json)


@app.command("show")
def show(device: DeviceId) -> None:
    """Show a device, and where it belongs."""
    from ilyama_service.cli import devices

    devices.show(device)


@app.command("register")
def register(
    topic_slug: Annotated[
        str, typer.Argument(metavar="SLUG", help="The first level of its topics, or ''.")
    ],
    device_name: Annotated[
        str, typer.Argument(metavar="NAME", help="The second level of its topics.")
    ],
    device_id: Annotated[
        str | None, typer.Option("--id", help="An id of its own, else SLUG/NAME.")
    ] = None,
    org: Org = None,
    project: Project = None,
    fleet: Fleet = None,
    firmware: Annotated[str | None, typer.Option(help="What it runs, as far as known.")] = None,
) -> None:
    """Make a device known before its first message, or after it was rejected."""
    from ilyama_resources.postgres.devices import NewDevice
    from ilyama_service.cli import devices

    name = devices.chosen_id(device_id, topic_slug, device_name)
    devices.register(NewDevice(name, topic_slug, device_name, org, project, fleet, firmware))


@app.command("move")
def move(device: DeviceId, org: Org = None, project: Project = None, fleet: Fleet = None) -> None:
    """Move a device to another organization, project or fleet; '' is none."""
    from ilyama_service.cli import devices

    named = {"org_id": org, "project_id": project, "fleet_id": fleet}
    devices.move(device, {place: name for place, name in named.items() if name is not None})
