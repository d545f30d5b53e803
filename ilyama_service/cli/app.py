"""The `ilyama` command: what a person types, and sentences instead of tracebacks."""

import sys

import typer

from ilyama_service.cli.check.command import check
from ilyama_service.cli.commands import devices, lineages, platform, rejections, reviews
from ilyama_service.cli.commands.simulate import simulate
from ilyama_service.cli.sentences import sentence_of

FAILED = 1

app = typer.Typer(
    name="ilyama",
    help="Ilyama: from the messages of edge devices to exact, explained tables.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

PLATFORM, DATA_IN, WHAT_CAME = "The platform", "Data in", "What came of it"
DECISIONS, FIRMWARE = "Decisions of people", "Firmware"

app.command("up", rich_help_panel=PLATFORM)(platform.up)
app.command("down", rich_help_panel=PLATFORM)(platform.down)
app.command("status", rich_help_panel=PLATFORM)(platform.status)
app.command("logs", rich_help_panel=PLATFORM)(platform.logs)
app.command("reset", rich_help_panel=PLATFORM)(platform.reset)
app.command("ui", rich_help_panel=PLATFORM)(platform.ui)
app.command("import", rich_help_panel=DATA_IN)(platform.import_file)
app.command("ingest", rich_help_panel=DATA_IN)(platform.ingest)
app.command("drain", rich_help_panel=DATA_IN)(platform.drain)
app.command("drains", rich_help_panel=DATA_IN)(platform.drains)
app.add_typer(rejections.app, name="rejections", rich_help_panel=WHAT_CAME)
app.add_typer(lineages.app, name="lineages", rich_help_panel=WHAT_CAME)
app.command("gaps", rich_help_panel=WHAT_CAME)(platform.gaps)
app.command("conflicts", rich_help_panel=WHAT_CAME)(platform.conflicts)
app.add_typer(devices.app, name="devices", rich_help_panel=DECISIONS)
app.add_typer(reviews.app, name="review", rich_help_panel=DECISIONS)
app.command("policy", rich_help_panel=DECISIONS)(reviews.policy)
app.command("audit", rich_help_panel=DECISIONS)(platform.audit)
app.command("check", rich_help_panel=FIRMWARE)(check)
app.command("simulate", rich_help_panel=FIRMWARE)(simulate)


def main() -> None:
    """Run the command line."""
    try:
        app()
    except Exception as error:
        sentence = sentence_of(error)
        if sentence is None:
            raise
        typer.echo(f"ilyama: {sentence}", err=True)
        sys.exit(FAILED)
