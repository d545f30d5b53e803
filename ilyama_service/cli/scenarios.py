"""`ilyama simulate --scenario`: play one misbehaviour and say what came of it."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

import msgspec
import typer
from rich.table import Table

from ilyama_resources.embedded.broker_server import broker_in_use
from ilyama_resources.settings import load_settings
from ilyama_service.cli.consoles import console
from ilyama_service.cli.simulating import records
from ilyama_service.simulator.scenarios.catalog import SCENARIOS, find_scenario
from ilyama_service.simulator.scenarios.findings import Findings
from ilyama_service.simulator.scenarios.playing import Player

_NOT_AS_EXPECTED: Final = 1


def list_scenarios(*, as_json: bool) -> None:
    """Print every scenario with what it plays and what must come of it."""
    if as_json:
        for scenario in SCENARIOS.values():
            told = {"name": scenario.name, "plays": scenario.line, "ends": scenario.ends()}
            typer.echo(msgspec.json.encode(told))
        return
    table = Table("scenario", "what a device does", "what must come of it", box=None)
    for scenario in SCENARIOS.values():
        table.add_row(scenario.name, scenario.line, scenario.ends())
    console.print(table)


def play_scenarios(names: Sequence[str], *, slug: str, wait_s: float, as_json: bool) -> None:
    """Play scenarios, wait for drains, and tell what came of each; exit 1 when it is not right."""
    scenarios = [find_scenario(name) for name in names]
    settings = load_settings()
    settings.make_directories()
    with ExitStack() as stack:
        broker_url = stack.enter_context(broker_in_use(settings))
        player = Player(settings, broker_url, stack.enter_context(records(settings)))
        played = player.play(scenarios, slug=slug)
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
    clean = "[green]All as it had to be.[/]"
    console.print(clean if findings.is_clean else "[red]Not as it had to be.[/]")
