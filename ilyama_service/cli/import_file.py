"""`ilyama import`: land captured traffic."""

from pathlib import Path

import typer
from rich.progress import Progress

from ilyama_resources.embedded.postgres_server import postgres_in_use
from ilyama_resources.postgres import Gateway
from ilyama_resources.settings import load_settings
from ilyama_service.cli.consoles import console, errors
from ilyama_service.imports import Importer, ImportSummary

_BAD_LINES = 1


def land_file(file: Path) -> None:
    """Land a file, showing how far it is, and say what came of it."""
    settings = load_settings()
    settings.make_directories()
    with postgres_in_use(settings) as url, Progress(console=errors, transient=True) as progress:
        gateway = Gateway(url)
        gateway.migrate()
        task = progress.add_task(f"landing {file.name}", total=file.stat().st_size)
        importer = Importer(settings.landing, gateway, segment_max_bytes=settings.segment_max_bytes)
        summary = importer.run(
            file,
            lambda number, reason: errors.print(
                f"line {number} is no CloudEvent: {reason}", markup=False, highlight=False
            ),
            lambda offset: progress.update(task, completed=offset),
        )
        gateway.close()
    _report(summary)


def _report(summary: ImportSummary) -> None:
    told = f"{summary.messages:,} messages landed in {summary.segments:,} segments"
    if summary.resumed_segments:
        told += f", {summary.resumed_segments:,} of them by an interrupted import"
    console.print(f"{told}.", highlight=False)
    if summary.bad_lines:
        errors.print(f"{summary.bad_lines:,} lines were no CloudEvents.", highlight=False)
        raise typer.Exit(_BAD_LINES)
