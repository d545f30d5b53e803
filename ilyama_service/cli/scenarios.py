"""`ilyama simulate --scenario`: play one misbehaviour and say what came of it."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Final

import msgspec
import typer
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ilyama_resources.embedded.broker_server import broker_in_use
from ilyama_resources.settings import load_settings
from ilyama_service.cli.consoles import console, errors
from ilyama_service.cli.simulated_fleet import insist_on_slug, records
from ilyama_service.simulator.scenarios.catalog import SCENARIOS, find_scenario
from ilyama_service.simulator.scenarios.findings import Findings
from ilyama_service.simulator.scenarios.playing import Player

_NOT_AS_EXPECTED: Final = 1
_INDENT: Final = 4


def list_scenarios(*, as_json: bool) -> None:
    """Print every scenario with what it plays and what must come of it."""
    if as_json:
        for scenario in SCENARIOS.values():
            told = {"name": scenario.name, "plays": scenario.line, "ends": scenario.ends()}
            typer.echo(msgspec.json.encode(told))
        return
    for scenario in SCENARIOS.values():
        # A name is to be typed: it stands whole on a line, however narrow a terminal is.
        console.print(scenario.name, style="bold", markup=False, highlight=False)
        for sentence in (scenario.line, f"must come of it: {scenario.ends()}"):
            indented = Padding(Text(sentence), (0, 0, 0, _INDENT), expand=False)
            console.print(indented, soft_wrap=False)


def play_scenarios(names: Sequence[str], *, slug: str, wait_s: float, as_json: bool) -> None:
    """Play scenarios, wait for drains, and tell what came of each; exit 1 when it is not right."""
    scenarios = [find_scenario(name) for name in names]
    insist_on_slug(slug)
    settings = load_settings()
    settings.make_directories()
    with ExitStack() as stack:
        broker_url = stack.enter_context(broker_in_use(settings))
        player = Player(settings, broker_url, stack.enter_context(records(settings)))
        played = player.play(scenarios, slug=slug)
        errors.print(f"Published; waiting for drains, {wait_s:,.0f} s at most.", highlight=False)
        found = player.findings(played, wait_s=wait_s)
    for findings in found:
        _tell(findings, as_json=as_json)
    if not all(findings.is_clean for findings in found):
        raise typer.Exit(_NOT_AS_EXPECTED)


def _tell(findings: Findings, *, as_json: bool) -> None:
    if as_json:
        told = msgspec.to_builtins(findings) | {"is_clean": findings.is_clean}
        typer.echo(msgspec.json.encode(told))
        return
    console.print(
        f"{findings.scenario}: {findings.messages:,} messages of {findings.device}",
        highlight=False,
    )
    table = Table("what had to come of it", "what came of it", "messages", box=None)
    for end in findings.ends:
        style = None if end.as_expected else "red"
        table.add_row(end.expected, end.found, f"{end.messages:,}", style=style)
    for listing in findings.listings:
        style = None if listing.as_expected else "red"
        table.add_row(f"{listing.what}: {listing.expected}", listing.found, style=style)
    console.print(table)
    for sentence in _verdict(findings):
        console.print(sentence, highlight=False)


def _verdict(findings: Findings) -> Iterator[str]:
    if findings.undecided:
        yield (
            f"[yellow]{findings.undecided:,} of these messages are not drained yet.[/] "
            "`ilyama status` says what is running, `ilyama drain` drains now."
        )
    if findings.is_clean:
        yield "[green]All as it had to be.[/]"
    elif findings.is_wrong:
        yield "[red]Not as it had to be.[/]"
