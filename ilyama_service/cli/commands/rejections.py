"""`ilyama rejections`: the words of its commands; their work is imported when they are called."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from ilyama_service.cli.options import MOST_LISTED, JsonLines

if TYPE_CHECKING:
    from ilyama_resources.postgres.rejections import RejectionFilter

app = typer.Typer(
    help="Look at what was rejected, and explain, replay or discard it.",
    invoke_without_command=True,
)

Id = Annotated[UUID, typer.Argument(metavar="ID", help="The id of a rejection.")]
OneOrGroup = Annotated[
    UUID | None, typer.Argument(metavar="ID", help="One of them; or --code for a group.")
]
Sure = Annotated[bool, typer.Option("--yes", help="Do it to the group, do not only count.")]
Code = Annotated[str | None, typer.Option(help="Those with this code.")]
SourceTable = Annotated[str | None, typer.Option("--table", help="Those of this table.")]
Firmware = Annotated[str | None, typer.Option(help="Those of this firmware.")]
DeviceId = Annotated[str | None, typer.Option("--device", help="Those of this device.")]


@app.callback()
def _list_by_default(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        list_groups()


@app.command("list")
def list_groups(
    code: Code = None,
    table: SourceTable = None,
    firmware: Firmware = None,
    state: Annotated[str | None, typer.Option(help="Those in this state.")] = None,
    device: DeviceId = None,
    each: Annotated[bool, typer.Option("--each", help="One by one, newest first.")] = False,
    limit: Annotated[
        int, typer.Option(min=1, max=MOST_LISTED, help="How many; groups come largest first.")
    ] = 20,
    as_json: JsonLines = False,
) -> None:
    """List rejections by code, table and firmware: one mistake is one line; or --each."""
    from ilyama_service.cli import rejections

    wanted = rejections.wanted(
        code=code, table=table, firmware=firmware, state=state, device=device
    )
    listed = rejections.list_each if each else rejections.list_groups
    listed(wanted, limit=limit, as_json=as_json)


@app.command("show")
def show(
    rejection_id: Id,
    save: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Write the message's bytes to a file.")
    ] = None,
) -> None:
    """Show a rejection, what is wrong with it, its replays and its bytes."""
    from ilyama_service.cli import rejections

    rejections.show(str(rejection_id), save=save)


@app.command("replay")
def replay(
    rejection_id: OneOrGroup = None,
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
    sure: Sure = False,
) -> None:
    """Replay one rejection, or all open ones of a group; the next drain decides them."""
    from ilyama_service.cli import rejections

    wanted = rejections.wanted(code=code, table=table, firmware=firmware, device=device)
    if _is_one(rejection_id, wanted):
        rejections.replay_one(str(rejection_id), corrected)
    elif corrected is not None:
        raise typer.BadParameter("--with is for one rejection: give its ID.")
    else:
        rejections.replay_group(wanted, sure=sure)


@app.command("explain")
def explain(
    rejection_id: OneOrGroup = None,
    why: Annotated[
        str | None, typer.Argument(metavar="NOTE", help="Why it was rejected; or --note.")
    ] = None,
    note: Annotated[str | None, typer.Option(help="Why a group was rejected.")] = None,
    code: Code = None,
    table: SourceTable = None,
    firmware: Firmware = None,
    device: DeviceId = None,
    sure: Sure = False,
) -> None:
    """Add a note to a rejection, or to all open ones of a group; an earlier note is replaced."""
    from ilyama_service.cli import rejections

    wanted = rejections.wanted(code=code, table=table, firmware=firmware, device=device)
    is_one = _is_one(rejection_id, wanted)
    told = why if note is None else note
    if told is None or (why is not None and note is not None):
        raise typer.BadParameter("Say once why: NOTE behind the ID, or --note.")
    if is_one:
        rejections.explain(str(rejection_id), told)
    else:
        rejections.explain_group(wanted, told, sure=sure)


@app.command("discard")
def discard(
    rejection_id: OneOrGroup = None,
    note: Annotated[str | None, typer.Option(help="Why nobody will replay it.")] = None,
    code: Code = None,
    table: SourceTable = None,
    firmware: Firmware = None,
    device: DeviceId = None,
    sure: Sure = False,
) -> None:
    """Mark one, or all open ones of a group, as never to be replayed; nothing is deleted."""
    from ilyama_service.cli import rejections

    wanted = rejections.wanted(code=code, table=table, firmware=firmware, device=device)
    if _is_one(rejection_id, wanted):
        rejections.discard(str(rejection_id), note)
    else:
        rejections.discard_group(wanted, note, sure=sure)


def _is_one(rejection_id: UUID | None, wanted: "RejectionFilter") -> bool:
    """Whether one rejection is meant; else it is a group, which has a code."""
    if rejection_id is None and wanted.code is None:
        raise typer.BadParameter("Give the ID of a rejection, or --code for a group.")
    if rejection_id is not None and any(word is not None for word in wanted):
        raise typer.BadParameter("Give the ID of a rejection or a group, not both.")
    return rejection_id is not None
