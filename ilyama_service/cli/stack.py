"""`ilyama up | down | status | logs | reset`: the local stack, from a terminal."""

import shutil
import subprocess
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import typer
from rich.markup import escape
from rich.table import Table

from ilyama_resources.delta.key_conflicts import RECENT_DAYS
from ilyama_resources.embedded.java import find_java
from ilyama_resources.embedded.ports import LOOPBACK, is_free, seen_from_here
from ilyama_resources.embedded.postgres_server import EmbeddedPostgres
from ilyama_resources.embedded.server import wait_until
from ilyama_resources.settings import Ingest, Settings, load_settings, variable
from ilyama_service.api.tokens import admin_token_file
from ilyama_service.cli.consoles import console, errors
from ilyama_service.cli.watched_supervisor import (
    STOPPED_WITHIN_S,
    StackFailed,
    WatchedSupervisor,
    stop_signals,
)
from ilyama_service.dagster_home import DagsterHome
from ilyama_service.simulator.record import record_directory
from ilyama_service.stack.parts import Part, parts_of
from ilyama_service.stack.status import PartHealth, Status, part_healths, status_of
from ilyama_service.stack.stopping import announce_stop
from ilyama_service.stack.supervision import StackRunning, Supervisor

_HEALTHY_WITHIN_S: Final = 300
_LANDS_WITHIN_S: Final = 30
_POLL_S: Final = 0.5
_LOG_LINES: Final = 15
_PORTS: Final = ("broker_port", "dagster_port", "api_port")
_NOT_HEALTHY: Final = 1


def up(*, simulator: bool, detach: bool) -> None:
    """Start the stack and wait until every part is healthy; then stay, or leave it alone."""
    settings = load_settings()
    settings.make_directories()
    supervisor = Supervisor(settings)
    _require_no_other(supervisor, settings)
    parts = parts_of(settings, simulator=simulator)
    _require_means(settings, parts)
    with stop_signals():
        announce = partial(announce_stop, settings, supervisor)
        watched = WatchedSupervisor(supervisor, parts, attached=not detach, before_stop=announce)
        try:
            watched.start()
            wait_until_healthy(settings, watched)
            _tell_where(settings, detach=detach)
            if not detach:
                watched.stay()
        except BaseException:
            watched.stop()
            raise
    if not detach:
        console.print("The stack was stopped.")


def down() -> None:
    """Stop the stack in order."""
    settings = load_settings()
    supervisor = Supervisor(settings)
    if not supervisor.running:
        console.print("No stack is running.")
        return
    with console.status("Stopping ..."):
        announce_stop(settings, supervisor)
        if not wait_until(lambda: _stops(supervisor), within_s=STOPPED_WITHIN_S):
            raise StackFailed("the stack does not stop; see `ilyama logs supervisor`.")
    console.print("Stopped.")


def _stops(supervisor: Supervisor) -> bool:
    """Whether it has ended; one that has just started may not hear the first request."""
    supervisor.stop()
    return not supervisor.running


def show_status(*, as_json: bool) -> None:
    """Print how every part is, and how far intake has come; exit 1 when something is wrong."""
    status = status_of(load_settings())
    if as_json:
        typer.echo(msgspec.json.encode(status).decode())
    else:
        show(status)
    if not status.healthy:
        raise typer.Exit(_NOT_HEALTHY)


def show_logs(part: str | None, *, lines: int, follow: bool) -> None:
    """Print the end of the log of a part, or of all."""
    directory = load_settings().log
    names = sorted(file.stem for file in directory.glob("*.log"))
    if part is not None and part not in names:
        known = ", ".join(names) or "none yet"
        raise StackFailed(f"there is no log of {part!r}; there are: {known}.")
    files = [directory / f"{name}.log" for name in names if part in (None, name)]
    for file in files:
        for line in _tail(file, lines):
            typer.echo(line if part else f"{file.stem:<10} {line}")
    if follow and files:
        _follow(files)


def reset(*, sure: bool) -> None:
    """Remove all state: tables, records, broker, segments, logs."""
    settings = load_settings()
    if Supervisor(settings).running:
        raise StackRunning("the stack is running: `ilyama down` first.")
    if settings.postgres_url is not None:
        name = variable("postgres_url")
        raise StackFailed(f"the records lie in the database of {name}: drop that one by hand.")
    if EmbeddedPostgres(settings).endpoint() is not None:
        raise StackRunning("another command uses the records: wait until it has ended.")
    present = [path for path in _state_of(settings) if path.exists()]
    if not present:
        console.print("There is nothing to remove.")
        return
    named = " and ".join(map(str, _places(settings, present)))
    if not sure:
        typer.confirm(f"Remove everything of the platform in {named}?", abort=True)
    settings.make_directories()  # The lock that keeps a stack out lies in one of them.
    with Supervisor(settings).kept_out():
        for path in _state_of(settings):
            shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        settings.home.rmdir()  # What others have put there stays, and so does the home.
    if any(path.exists() for path in present):
        raise StackFailed(f"not everything in {named} could be removed: whose files are they?")
    console.print(f"Removed {named}.", markup=False, highlight=False)


def _state_of(settings: Settings) -> list[Path]:
    """Every directory that the platform keeps."""
    of_data = (settings.landing, settings.warehouse)
    of_servers = (settings.postgres_dir, settings.broker_dir, settings.api_dir)
    of_runs = (settings.log, settings.run, DagsterHome(settings).directory)
    return [*of_data, *of_servers, *of_runs, record_directory(settings)]


def _places(settings: Settings, paths: Sequence[Path]) -> list[Path]:
    """The directories to name: the home for all that lies in it."""
    outside = [path for path in paths if not path.is_relative_to(settings.home)]
    return [settings.home, *outside] if len(outside) < len(paths) else outside


def _require_no_other(supervisor: Supervisor, settings: Settings) -> None:
    if supervisor.running:
        raise StackRunning(
            f"a stack is running on {settings.home} already: `ilyama status` shows it, "
            "`ilyama down` stops it."
        )


def _require_means(settings: Settings, parts: Sequence[Part]) -> None:
    embedded = {part.name for part in parts}
    if embedded & {"broker", "spark"}:
        find_java()
    if "broker" in embedded:
        _require_room(settings)
    for field in _PORTS:
        port: int = getattr(settings, field)
        if field == "broker_port" and "broker" not in embedded:
            continue
        if not is_free(port):
            raise StackFailed(
                f"port {port} is in use by another program: set {variable(field)} to a free one."
            )


def _require_room(settings: Settings) -> None:
    free, needed = shutil.disk_usage(settings.home).free, settings.broker_min_disk_free
    if free < needed:
        raise StackFailed(
            f"the disk of {settings.home} has {free / 2**20:,.0f} MiB left; below "
            f"{needed / 2**20:,.0f} ({variable('broker_min_disk_free')}) the broker takes nothing."
        )


def _is_sensor(settings: Settings, health: PartHealth) -> bool:
    return health.name == "ingest" and settings.ingest is Ingest.SENSOR


def wait_until_healthy(settings: Settings, watched: WatchedSupervisor) -> None:
    """Tell which parts are ready, until all are; for the sensor nobody waits very long.

    Raises:
        StackFailed: Some part does not come up.
    """
    started = parts_ready_at = time.monotonic()
    ready: set[str] = set()
    healths: list[PartHealth] = []
    with console.status("Starting ...") as line:
        while time.monotonic() - started < _HEALTHY_WITHIN_S:
            watched.look_after()
            healths = part_healths(settings, watched.supervisor)
            for health in healths:
                if health.healthy and health.name not in ready:
                    ready.add(health.name)
                    seconds = time.monotonic() - started
                    console.print(f"  {health.name:<10} ready after {seconds:.0f} s")
            late = [health for health in healths if not health.healthy]
            if healths and not late:
                return
            if not healths or not all(_is_sensor(settings, health) for health in late):
                parts_ready_at = time.monotonic()
            elif time.monotonic() - parts_ready_at > _LANDS_WITHIN_S:
                # Where it can be switched on again is the UI, which is there.
                errors.print(f"ingest {late[0].detail}", markup=False, highlight=False)
                return
            line.update(f"Starting {', '.join(health.name for health in late)} ...")
            time.sleep(_POLL_S)
    raise StackFailed(_what_failed(settings, [h for h in healths if not h.healthy]))


def _what_failed(settings: Settings, failed: Sequence[PartHealth]) -> str:
    told = "; ".join(f"{health.name} {health.detail}" for health in failed)
    ends = [
        f"  {health.name}: {line}"
        for health in failed
        for line in _tail(settings.log / f"{health.name}.log", _LOG_LINES)
    ]
    return "\n".join((f"the stack did not come up: {told}.", *ends))


def _tell_where(settings: Settings, *, detach: bool) -> None:
    table = Table(box=None, show_header=False, padding=(0, 1))
    table.add_row("Dagster UI", f"http://{LOOPBACK}:{settings.dagster_port}")
    api = f"{seen_from_here(settings.api_host)}:{settings.api_port}"
    table.add_row("HTTP API", f"http://{api}/docs")
    table.add_row("admin token", admin_token_file(settings).read_text().strip())
    if settings.broker_url is None:
        table.add_row("MQTT broker", f"{LOOPBACK}:{settings.broker_port}")
    table.add_row("to look", "ilyama status | ilyama logs")
    table.add_row("to stop", "ilyama down" if detach else "Ctrl-C")
    console.print("\nIlyama is running.", table)


def show(status: Status) -> None:
    """Print a status for a person; what devices and servers say is shown as it is."""
    for part in status.parts:
        mark = "[green]healthy[/]" if part.healthy else f"[red]{escape(part.detail)}[/]"
        console.print(f"{part.name:<10} {mark}", highlight=False)
    _show_unreadable(status)
    if status.pending_segments is None:
        console.print("records    not to be had while Postgres is away", highlight=False)
        return
    console.print(
        f"pending    {status.pending_segments:,} segments, {status.pending_messages:,} messages",
        highlight=False,
    )
    console.print(f"last drain {_last_drain(status)}", highlight=False)
    if status.unfinished_drain is not None:
        told = f"unfinished drain {status.unfinished_drain}"
        console.print(told, markup=False, highlight=False)
    console.print(f"rows today {status.rows_today:,}", highlight=False)
    console.print(f"rejections {status.open_rejections:,} open", highlight=False)
    if status.open_reviews:
        more = f", {status.waiting_schemas:,} more wait for room" if status.waiting_schemas else ""
        told = f"reviews    {status.open_reviews:,} open{more}: see `ilyama review`"
        console.print(told, style="yellow", highlight=False)
    _show_books(status)
    if status.busiest_device is not None:
        busiest = status.busiest_device
        console.print(
            f"busy       {busiest.named} sent {busiest.messages:,} of the "
            f"{busiest.of_messages:,} messages of the last five minutes",
            style="yellow",
            markup=False,
            highlight=False,
        )


def _show_books(status: Status) -> None:
    """What never came, and what came with other content."""
    if status.telemetry_missing:
        told = f"missing    {status.telemetry_missing:,} telemetry batches: see `ilyama gaps`"
        console.print(told, style="yellow", highlight=False)
    if status.journal_missing_hint:
        told = f"hint       {status.journal_missing_hint:,} or more numbers of journals never came"
        console.print(f"{told}: see `ilyama gaps`", highlight=False)
    if status.recent_key_conflicts:
        count = f"{status.recent_key_conflicts:,} in {RECENT_DAYS} days"
        told = f"conflicts  {count}: see `ilyama conflicts`"
        console.print(told, style="yellow", highlight=False)


def _show_unreadable(status: Status) -> None:
    if status.unreadable_segments:
        told = (
            f"unreadable {status.unreadable_segments:,} landed files are set aside: see the events"
        )
        console.print(told, style="yellow", highlight=False)
    for file in status.unreadable_conflicts:
        told = f"unreadable {file}: its key conflicts are not counted"
        console.print(told, style="yellow", markup=False, highlight=False)


def _last_drain(status: Status) -> str:
    last = status.last_drain
    if last is None:
        return "none yet"
    return f"{last.drain_id} of {last.day}, {last.age_s:,.0f} s ago"


def _tail(file: Path, lines: int) -> list[str]:
    try:
        with file.open(errors="replace") as log:
            return [line.rstrip("\n") for line in deque(log, maxlen=lines)]
    except FileNotFoundError:
        return []


def _follow(files: Sequence[Path]) -> None:
    command = ["tail", "-n0", "-F", *map(str, files)]
    subprocess.run(command, check=False)
