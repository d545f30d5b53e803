"""Commands of the platform as a whole: its parts, what comes in, what is listed of it."""

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from ilyama_protocol.intake.conflicts import ConflictKind
from ilyama_protocol.intake.sequences import SequenceKind
from ilyama_service.cli.derived import Derived
from ilyama_service.cli.options import HowMany, HowManyOfTheNewest, JsonLines


def import_file(
    file: Annotated[
        Path,
        typer.Argument(exists=True, dir_okay=False, readable=True, help="CloudEvents, one a line."),
    ],
) -> None:
    """Land a file of captured device traffic, keeping the time of each message."""
    from ilyama_service.cli.import_file import land_file

    land_file(file)


def drain(
    verify: Annotated[
        bool, typer.Option("--verify", help="Afterwards, verify every row of the tables.")
    ] = False,
    skip: Annotated[
        list[Derived] | None, typer.Option(help="Leave a derived table to its own runs.")
    ] = None,
) -> None:
    """Drain until nothing waits, then bring derived tables up to date."""
    from ilyama_service.cli.drain import drain_everything

    drain_everything(verify=verify, skipped=skip or [])


def drains(
    limit: HowManyOfTheNewest = 20,
    as_json: JsonLines = False,
    release: Annotated[
        int | None, typer.Option(help="Let a held drain be decided again.", metavar="DRAIN")
    ] = None,
) -> None:
    """List drains and their state."""
    from ilyama_service.cli.drains import list_drains

    list_drains(limit=limit, as_json=as_json, release=release)


def gaps(
    device: Annotated[str | None, typer.Option(help="Of one device only.")] = None,
    table: Annotated[str | None, typer.Option(help="Of the telemetry of one table only.")] = None,
    kind: Annotated[
        SequenceKind | None, typer.Option(help="Of one kind only; those of rows are a hint.")
    ] = None,
    telemetry: Annotated[
        bool, typer.Option("--telemetry", help="The same as --kind telemetry.")
    ] = False,
    limit: HowMany = 100,
    as_json: JsonLines = False,
) -> None:
    """List numbers of telemetry and of journals that never came."""
    from ilyama_resources.postgres.gaps import GapFilter
    from ilyama_service.cli.gaps import list_gaps

    if kind is SequenceKind.ROWS and (telemetry or table is not None):
        raise typer.BadParameter(
            "--kind rows goes with no --table, as journals are of all, nor --telemetry."
        )
    if telemetry or table is not None:
        kind = SequenceKind.TELEMETRY
    list_gaps(GapFilter(device, kind, table), limit=limit, as_json=as_json)


def conflicts(
    device: Annotated[str | None, typer.Option(help="Of one device only.")] = None,
    table: Annotated[str | None, typer.Option(help="Of one table only.")] = None,
    kind: Annotated[ConflictKind | None, typer.Option(help="Of one kind of key only.")] = None,
    day: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d"], help="Of one UTC day of arrival only."),
    ] = None,
    limit: HowManyOfTheNewest = 100,
    as_json: JsonLines = False,
) -> None:
    """List key conflicts: other content that came under a key already taken."""
    from ilyama_resources.delta.key_conflicts import ConflictFilter
    from ilyama_service.cli.conflicts import list_conflicts

    wanted = ConflictFilter(device, table, kind, None if day is None else day.date())
    list_conflicts(wanted, limit=limit, as_json=as_json)


def audit(
    resource: Annotated[
        str | None, typer.Option(help="Only this resource, like review/7 or drain/12.")
    ] = None,
    actor: Annotated[str | None, typer.Option(help="Only what this actor did.")] = None,
    verb: Annotated[str | None, typer.Option(help="Only this action, like approve.")] = None,
    limit: HowManyOfTheNewest = 20,
    as_json: JsonLines = False,
) -> None:
    """List what operators did, and who they were."""
    from ilyama_resources.postgres.audit import AuditFilter
    from ilyama_service.cli.audit import list_audit

    list_audit(AuditFilter(resource, actor, verb), limit=limit, as_json=as_json)


def ui(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Where it listens.")] = 3000,
) -> None:
    """Open the Dagster UI on this platform's records, until Ctrl-C."""
    from ilyama_service.cli.ui import show_interface

    show_interface(port=port)


def up(
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Start a small simulated fleet too.")
    ] = False,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Leave it running and return.")
    ] = False,
) -> None:
    """Start the whole platform on this machine; Ctrl-C stops it."""
    from ilyama_service.cli import stack

    stack.up(simulator=simulate, detach=detach)


def down() -> None:
    """Stop the platform in order."""
    from ilyama_service.cli import stack

    stack.down()


def status(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show how every part is and how far intake has come; exit 1 when something is wrong."""
    from ilyama_service.cli import stack

    stack.show_status(as_json=as_json)


def logs(
    part: Annotated[str | None, typer.Argument(help="One part; all without it.")] = None,
    lines: Annotated[int, typer.Option("-n", min=0, help="How many lines of each.")] = 20,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on printing.")] = False,
) -> None:
    """Print the end of the logs."""
    from ilyama_service.cli import stack

    stack.show_logs(part, lines=lines, follow=follow)


def reset(
    sure: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove all data and records of the platform on this machine."""
    from ilyama_service.cli import stack

    stack.reset(sure=sure)


def ingest() -> None:
    """Land what devices publish, until Ctrl-C; for ILYAMA_INGEST=process."""
    from ilyama_service.cli.ingest import land_messages

    land_messages()
