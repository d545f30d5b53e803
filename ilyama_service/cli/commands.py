"""The commands that need servers: their words here, their work imported when they are called.

`ilyama check` has to start in an instant; so nothing here imports a database or Dagster.
"""

from pathlib import Path
from typing import Annotated

import typer


def import_file(
    file: Annotated[
        Path,
        typer.Argument(exists=True, dir_okay=False, readable=True, help="CloudEvents, one a line."),
    ],
) -> None:
    """Land a file of captured device traffic, keeping the time of each message."""
    from ilyama_service.cli.importing import land_file

    land_file(file)


def drain(
    verify: Annotated[
        bool, typer.Option("--verify", help="Afterwards, verify every row of the tables.")
    ] = False,
) -> None:
    """Drain until nothing waits, then bring the Delta form of current values up to date."""
    from ilyama_service.cli.draining import drain_everything

    drain_everything(verify=verify)


def drains(
    limit: Annotated[int, typer.Option(min=1, help="How many, newest first.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
    release: Annotated[
        int | None, typer.Option(help="Let a held drain be decided again.", metavar="DRAIN")
    ] = None,
) -> None:
    """List drains and their state."""
    from ilyama_service.cli.listing import list_drains

    list_drains(limit=limit, as_json=as_json, release=release)


def ui(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Where it listens.")] = 3000,
) -> None:
    """Open the Dagster UI on this platform's records, until Ctrl-C."""
    from ilyama_service.cli.interface import show_interface

    show_interface(port=port)
