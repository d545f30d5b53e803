"""`ilyama lineages`: the words of its commands; their work is imported when they are called."""

from typing import Annotated

import typer

from ilyama_service.cli.options import HowMany, JsonLines

app = typer.Typer(
    help="Look at lineages, the tables of devices; pause and resume them.",
    invoke_without_command=True,
)

DeviceId = Annotated[str, typer.Argument(metavar="DEVICE", help="The id of a device.")]
SourceTable = Annotated[str, typer.Argument(metavar="TABLE", help="One of its tables.")]


@app.callback()
def _list_by_default(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        list_lineages()


@app.command("list")
def list_lineages(
    device: Annotated[str | None, typer.Option(help="Those of this device.")] = None,
    table: Annotated[str | None, typer.Option(help="Those of this table.")] = None,
    paused: Annotated[
        bool | None, typer.Option("--paused/--active", help="Only paused, or only active ones.")
    ] = None,
    limit: HowMany = 100,
    as_json: JsonLines = False,
) -> None:
    """List lineages, their state and what is staged of them."""
    from ilyama_resources.postgres.lineages import LineageFilter
    from ilyama_service.cli import lineages

    lineages.list_lineages(LineageFilter(device, table, paused), limit=limit, as_json=as_json)


@app.command("show")
def show(device: DeviceId, table: SourceTable) -> None:
    """Show a lineage, and why it is paused."""
    from ilyama_resources.postgres.lineages import LineagePlace
    from ilyama_service.cli import lineages

    lineages.show(LineagePlace(device, table))


@app.command("pause")
def pause(
    device: DeviceId,
    table: SourceTable,
    note: Annotated[str | None, typer.Option(help="Why it is paused.")] = None,
) -> None:
    """Stage what comes of a lineage from the next drain on."""
    from ilyama_resources.postgres.lineages import LineagePlace
    from ilyama_service.cli import lineages

    lineages.pause(LineagePlace(device, table), note)


@app.command("resume")
def resume(device: DeviceId, table: SourceTable) -> None:
    """Take the operator's pause away; what was staged is released."""
    from ilyama_resources.postgres.lineages import LineagePlace
    from ilyama_service.cli import lineages

    lineages.resume(LineagePlace(device, table))


@app.command("reset-materialization")
def reset_materialization(device: DeviceId, table: SourceTable) -> None:
    """Close an open circuit, and try the rows again that could not be materialized."""
    from ilyama_resources.postgres.lineages import LineagePlace
    from ilyama_service.cli import lineages

    lineages.reset_materialization(LineagePlace(device, table))


@app.command("retry-errors")
def retry_errors() -> None:
    """Try again what broke the engine, or could not be materialized, and was staged for it."""
    from ilyama_service.cli import lineages

    lineages.retry_errors()


@app.command("reset-sequence")
def reset_sequence(device: DeviceId, table: SourceTable) -> None:
    """Let the numbers of telemetry batches begin anew: the device's journal was rebuilt."""
    from ilyama_resources.postgres.lineages import LineagePlace
    from ilyama_service.cli import lineages

    lineages.reset_sequence(LineagePlace(device, table))
