"""`ilyama rejections`: the words of its commands; their work is imported when they are called."""

from pathlib import Path
from typing import Annotated
from uuid import UUID

import typer

from ilyama_service.cli.options import MOST_LISTED, JsonLines

rejections = typer.Typer(
    help="Look at what was rejected, and explain, replay or discard it.",
    invoke_without_command=True,
)

Id = Annotated[UUID, typer.Argument(metavar="ID", help="The id of a rejection.")]
Code = Annotated[str | None, typer.Option(help="Those with this code.")]
SourceTable = Annotated[str | None, typer.Option("--table", help="Those of this table.")]
Firmware = Annotated[str | None, typer.Option(help="Those of this firmware.")]
DeviceId = Annotated[str | None, typer.Option("--device", help="Those of this device.")]


@rejections.callback()
def _list_by_default(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        list_groups()


@rejections.command("list")
def list_groups(
    code: Code = None,
    table: SourceTable = None,
    firmware: Firmware = None,
    state: Annotated[str | None, typer.Option(help="Those in this state.")] = None,
    device: DeviceId = None,
    limit: Annotated[
        int, typer.Option(min=1, max=MOST_LISTED, help="How many groups, largest first.")
    ] = 20,
    as_json: JsonLines = False,
) -> None:
    """List rejections by code, table and firmware: one mistake is one line."""
    from ilyama_service.cli import rejecting

    wanted = rejecting.wanted(code=code, table=table, firmware=firmware, state=state, device=device)
    rejecting.list_groups(wanted, limit=limit, as_json=as_json)


@rejections.command("show")
def show(
    rejection_id: Id,
    save: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Write the message's bytes to a file.")
    ] = None,
) -> None:
    """Show a rejection, what is wrong with it, its replays and its bytes."""
    from ilyama_service.cli import rejecting

    rejecting.show(str(rejection_id), save=save)


@rejections.command("replay")
def replay(
    rejection_id: Annotated[UUID | None, typer.Argument(metavar="ID", help="One of them.")] = None,
    code: Code = None,
    table: SourceTable = None,
    firmware: Firmware = None,
    device: DeviceId = None,
    corrected: Annotated[
        Path | None,
        typer.Option(
            "--with", exists=True, dir_okay=False, readable=True, help="Bytes to send instead."
        ),
    ] = None,
) -> None:
    """Replay one rejection, or all open ones of a group; the next drain decides them."""
    from ilyama_service.cli import rejecting

    wanted = rejecting.wanted(code=code, table=table, firmware=firmware, device=device)
    if rejection_id is not None:
        if any(wanted):
            raise typer.BadParameter("Give the ID of a rejection or a group, not both.")
        rejecting.replay_one(str(rejection_id), corrected)
        return
    if code is None:
        raise typer.BadParameter("Give the ID of a rejection, or --code for a group.")
    if corrected is not None:
        raise typer.BadParameter("--with is for one rejection: give its ID.")
    rejecting.replay_group(wanted)


@rejections.command("explain")
def explain(
    rejection_id: Id, note: Annotated[str, typer.Argument(help="Why it was rejected.")]
) -> None:
    """Add a note to a rejection, or put another in its place."""
    from ilyama_service.cli import rejecting

    rejecting.explain(str(rejection_id), note)


@rejections.command("discard")
def discard(
    rejection_id: Id,
    note: Annotated[str | None, typer.Option(help="Why nobody will replay it.")] = None,
) -> None:
    """Mark a rejection as one that nobody will replay; nothing is deleted."""
    from ilyama_service.cli import rejecting

    rejecting.discard(str(rejection_id), note)
