"""`ilyama simulate`: run a simulated fleet, or judge what became of a run."""

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Final, NamedTuple

import msgspec
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from ilyama_protocol.topics import FORBIDDEN_CHARACTERS, RESERVED_SLUGS
from ilyama_resources.embedded.broker_server import broker_in_use
from ilyama_resources.embedded.postgres_server import postgres_in_use
from ilyama_resources.postgres import Gateway
from ilyama_resources.settings import Settings, load_settings
from ilyama_service.cli.consoles import console, errors
from ilyama_service.simulator.expectations import Expectations
from ilyama_service.simulator.plan import FleetPlan, clock_start_ms, fresh_seed, probe_every
from ilyama_service.simulator.record import find_record
from ilyama_service.simulator.reports import Report
from ilyama_service.simulator.runs import Run, Simulator
from ilyama_service.simulator.summary import Summary
from ilyama_service.simulator.verification import Verification

_DEFAULT_DURATION_S: Final = 60.0
_NOT_CLEAN: Final = 1
_NOT_ACKNOWLEDGED: Final = 1


def run_fleet(run: Run, *, register: bool, as_json: bool) -> None:
    """Run a fleet until its end or until it is stopped, and print what it came to."""
    settings = load_settings()
    settings.make_directories()
    with ExitStack() as stack:
        broker_url = stack.enter_context(broker_in_use(settings))
        wants_records = register or run.plan.probe_every > 0
        gateway = stack.enter_context(records(settings)) if wants_records else None
        simulator = Simulator(settings, broker_url, gateway)
        if register:
            simulator.register(run.plan)
        with _stopped_by_signals(simulator.stopped.set), _progress(run.messages) as progress:
            for summary in simulator.run(run, progress):
                _tell(summary, as_json=as_json)
    if summary.unacknowledged and not simulator.stopped.is_set():
        raise typer.Exit(_NOT_ACKNOWLEDGED)


class Extent(NamedTuple):
    """How much is sent: seconds' worth, so many messages, or without end."""

    duration: float | None = None
    messages: int | None = None
    forever: bool = False

    def messages_at(self, rate: float) -> int | None:
        """How many messages that are; None without end.

        Raises:
            typer.BadParameter: More than one extent is asked for.
        """
        if sum((self.duration is not None, self.messages is not None, self.forever)) > 1:
            raise typer.BadParameter("--duration, --messages and --forever exclude one another.")
        if self.forever:
            return None
        worth = round(rate * (_DEFAULT_DURATION_S if self.duration is None else self.duration))
        return self.messages or max(1, worth)


def planned_run(
    extent: Extent,
    *,
    seed: int | None,
    probe: bool,
    probe_wait_s: float,
    connections: int,
    rate: float,
    slug: str,
    **fleet: float,
) -> Run:
    """What the options ask for."""
    messages = extent.messages_at(rate)
    _refuse(extent, seed, slug)
    plan = msgspec.convert(
        fleet
        | {
            "seed": fresh_seed() if seed is None else str(seed),
            "clock_start_ms": clock_start_ms(seeded=seed is not None),
            "rate": rate,
            "slug": slug,
            "probe_every": probe_every(rate) if probe else 0,
        },
        FleetPlan,
    )
    return Run(
        plan=plan,
        messages=messages,
        seeded=seed is not None,
        connections=min(connections, plan.devices),
        probe_wait_s=probe_wait_s,
    )


def _refuse(extent: Extent, seed: int | None, slug: str) -> None:
    if extent.forever and seed is not None:
        raise typer.BadParameter("--forever never sends the same twice: it takes no --seed.")
    insist_on_slug(slug)


def insist_on_slug(slug: str) -> None:
    """Refuse what cannot be the first level of a device's topic.

    Raises:
        typer.BadParameter: it cannot.
    """
    is_forbidden = not FORBIDDEN_CHARACTERS.isdisjoint(slug)
    if "/" in slug or slug.startswith("$") or slug in RESERVED_SLUGS or is_forbidden:
        raise typer.BadParameter(f"{slug!r} cannot be the first level of a device's topic.")


def verify_run(run: str | None, *, wait_s: float, as_json: bool) -> None:
    """Compare a run with what the platform holds; exit 1 when something is not right."""
    settings = load_settings()
    settings.make_directories()
    expected = Expectations.read(find_record(settings, run))
    with records(settings) as gateway:
        report = Verification(expected, settings.warehouse, gateway).verify(wait_s=wait_s)
    if as_json:
        typer.echo(msgspec.json.encode(report).decode())
    else:
        _show_report(report)
    if not report.is_clean:
        raise typer.Exit(_NOT_CLEAN)


@contextmanager
def records(settings: Settings) -> Iterator[Gateway]:
    """The records of the platform, while they are needed."""
    with postgres_in_use(settings) as url:
        gateway = Gateway(url)
        try:
            gateway.migrate()
            yield gateway
        finally:
            gateway.close()


@contextmanager
def _stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Turn a request to end into an orderly one."""

    def heard(number: int, frame: FrameType | None) -> None:
        del number, frame
        stop()

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, heard) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@contextmanager
def _progress(messages: int | None) -> Iterator[Callable[[int], None]]:
    columns = (TextColumn("publishing"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    endless = messages is None
    with Progress(*columns, console=errors, transient=True, disable=endless) as progress:
        task = progress.add_task("publish", total=messages)
        yield lambda published: progress.update(task, completed=published)


def _tell(summary: Summary, *, as_json: bool) -> None:
    if as_json:
        typer.echo(msgspec.json.encode(summary).decode())
    else:
        _show_summary(summary)


def _show_summary(summary: Summary) -> None:
    console.print(
        f"run {summary.run}: {summary.published:,} messages published in "
        f"{summary.seconds:,.1f} s ({summary.rate:,.1f}/s), {summary.acknowledged:,} acknowledged, "
        f"{summary.unacknowledged:,} not; {summary.lost_connections:,} connections lost.",
        highlight=False,
    )
    table = _table("behaviour", "published", "acknowledged")
    for name, count in summary.behaviours.items():
        table.add_row(name, f"{count.published:,}", f"{count.acknowledged:,}")
    console.print(table)
    if summary.latency is not None:
        _show_latency(summary)


def _show_latency(summary: Summary) -> None:
    latency = summary.latency
    if latency is None or latency.p50_s is None:
        console.print("No probe was served in time.")
        return
    console.print(
        f"publish to served: p50 {latency.p50_s:.2f} s, p95 {latency.p95_s:.2f} s, "
        f"max {latency.max_s:.2f} s ({latency.served:,} of {latency.probes:,} probes).",
        highlight=False,
    )


def _show_report(report: Report) -> None:
    console.print(f"run {report.run}", highlight=False)
    table = _table("", "messages", "rows", "samples", "current values")
    messages, rows, samples, values = report.messages, report.rows, report.samples, report.values
    expected = (messages.acknowledged, rows.expected, samples.expected, values.compared)
    right = values.compared - values.wrong
    unanswered = messages.published - messages.acknowledged
    told: list[tuple[str, tuple[int | None, ...]]] = [
        ("published", (messages.published, None, None, None)),
        ("acknowledged, expected", expected),
        ("visible", (messages.visible, rows.visible, samples.visible, right)),
        ("lost", (messages.lost, rows.lost, samples.lost, None)),
        ("doubled", (None, rows.doubled, samples.doubled, None)),
        ("unexpected", (None, rows.unexpected, None, None)),
        ("wrong", (messages.wrong_outcome, rows.altered, None, values.wrong)),
        ("undecided", (unanswered, None, None, values.undecided)),
        ("to be rejected", (messages.to_be_rejected, None, None, None)),
        ("delivered again on the way", (messages.arrived_again, None, None, None)),
    ]
    for name, figures in told:
        table.add_row(name, *("" if figure is None else f"{figure:,}" for figure in figures))
    console.print(table)
    for example in report.examples:
        errors.print(example, markup=False, highlight=False)
    verdict = "[green]Nothing is lost, nothing is doubled.[/]"
    console.print(
        verdict if report.is_clean else "[red]The platform does not hold what was sent.[/]"
    )


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, header_style="bold")
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right")
    return table
