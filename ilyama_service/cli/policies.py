"""`ilyama policy`: what projects and tables chose, and what holds for them."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
import typer
from rich.markup import escape
from rich.table import Table

from ilyama_protocol.governance.policies import (
    EVERY_TABLE,
    NO_PROJECT,
    FirstSchema,
    Policy,
    PolicyScope,
    resolved,
)
from ilyama_service.cli.consoles import console
from ilyama_service.cli.records import actor, records, safe
from ilyama_service.policies import Policies

_INHERIT: Final = "inherit"
_SWITCH: Final[Mapping[str, bool | None]] = {"on": True, "off": False, _INHERIT: None}
_FIRST: Final[Mapping[str, FirstSchema | None]] = {
    **{choice.value: choice for choice in FirstSchema},
    _INHERIT: None,
}


def choose(
    project: str,
    table: str,
    *,
    first_schema: str | None,
    additive: str | None,
    auto_create: str | None,
) -> None:
    """Set what was named; the rest stays as it was chosen before."""
    told = (
        ("first_schema", first_schema, _FIRST),
        ("allow_additive_continue", additive, _SWITCH),
        ("allow_auto_create_datapoints", auto_create, _SWITCH),
    )
    named = {name: _told(word, words) for name, word, words in told if word is not None}
    with records() as (settings, gateway), gateway.transaction() as tx:
        Policies(settings.policy).change(
            tx,
            PolicyScope(project, table),
            lambda before: msgspec.structs.replace(before, **named),
            actor=actor(),
        )
        tx.commit()


def show(project: str | None, table: str | None, *, as_json: bool) -> None:
    """Print the default, and what holds where somebody chose or where it was asked for."""
    with records() as (settings, gateway), gateway.transaction() as tx:
        choices = tx.policies.all()
    scopes = asked_for(choices, project, table)
    holding = {scope: resolved(settings.policy, choices, scope) for scope in scopes}
    if as_json:
        told = [scope._asdict() | msgspec.structs.asdict(p) for scope, p in holding.items()]
        answer = {"default": settings.policy, "choices": told}
        typer.echo(msgspec.json.encode(answer).decode())
    else:
        console.print(_table(settings.policy, holding), highlight=False)


def asked_for(
    chosen: Iterable[PolicyScope], project: str | None, table: str | None
) -> list[PolicyScope]:
    """Where somebody chose, within a project or table; a named place is told in any case."""
    if project is None and table is None:
        return [*chosen]
    within = (
        scope
        for scope in chosen
        if project in (None, scope.project_id) and table in (None, scope.source_table)
    )
    named = PolicyScope(project or NO_PROJECT, table or EVERY_TABLE)
    return sorted({named, *within})


def _told(word: str, words: Mapping[str, object]) -> object:
    if word not in words:
        raise typer.BadParameter(f"{word} is none of {', '.join(words)}.")
    return words[word]


def _table(default: Policy, holding: Mapping[PolicyScope, Policy]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("project", "table", "first schema", "additive", "auto create"):
        table.add_column(name, overflow="fold")
    table.add_row("(default)", "(all)", *_words(default))
    for scope, policy in holding.items():
        project = escape(safe(scope.project_id)) or "(none)"
        table.add_row(project, escape(safe(scope.source_table)) or "(all)", *_words(policy))
    return table


def _words(policy: Policy) -> tuple[str, str, str]:
    switches = {True: "on", False: "off"}
    return (
        policy.first_schema.value,
        switches[policy.allow_additive_continue],
        switches[policy.allow_auto_create_datapoints],
    )
