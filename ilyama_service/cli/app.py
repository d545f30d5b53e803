"""The `ilyama` command: what a person types, and sentences instead of tracebacks."""

import sys

import typer

from ilyama_service.cli.check import check
from ilyama_service.cli.commands import (
    audit,
    conflicts,
    down,
    drain,
    drains,
    gaps,
    import_file,
    ingest,
    logs,
    reset,
    status,
    ui,
    up,
)
from ilyama_service.cli.device_commands import devices
from ilyama_service.cli.lineage_commands import lineages
from ilyama_service.cli.rejection_commands import rejections
from ilyama_service.cli.review_commands import policy, review
from ilyama_service.cli.sentences import sentence_of
from ilyama_service.cli.simulate_command import simulate

FAILED = 1

app = typer.Typer(
    name="ilyama",
    help="Ilyama: from the messages of edge devices to exact, explained tables.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command("up")(up)
app.command("down")(down)
app.command("status")(status)
app.command("logs")(logs)
app.command("reset")(reset)
app.command("check")(check)
app.command("import")(import_file)
app.command("ingest")(ingest)
app.command("drain")(drain)
app.command("drains")(drains)
app.add_typer(devices, name="devices")
app.add_typer(rejections, name="rejections")
app.add_typer(review, name="review")
app.command("policy")(policy)
app.add_typer(lineages, name="lineages")
app.command("gaps")(gaps)
app.command("conflicts")(conflicts)
app.command("audit")(audit)
app.command("ui")(ui)
app.command("simulate")(simulate)


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
