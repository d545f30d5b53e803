"""`ilyama review` and `ilyama policy`: their words; the work is imported when they are called."""

from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from ilyama_service.cli.options import HowManyOfTheNewest

app = typer.Typer(
    help="Look at schemas that wait for a person, and decide on them.",
    invoke_without_command=True,
)

Id = Annotated[int, typer.Argument(min=1, metavar="ID", help="The number of a review.")]
Version = Annotated[
    int | None,
    typer.Option(
        "--version", min=1, help="The version that you have seen; the present one without it."
    ),
]
Note = Annotated[str | None, typer.Option(help="Why; it is kept.")]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="NAME=ACTION[:KEY]",
        help="mirror, map:KEY, auto_create_and_map[:KEY], ignore or defer; others are mirrored. "
        "NAME may hold = itself.",
    ),
]
OneOrAll = Annotated[int | None, typer.Argument(min=1, metavar="ID", help="One of them.")]
All = Annotated[bool, typer.Option("--all", help="All open reviews that the other options select.")]
State = Annotated[str | None, typer.Option(help="Those in this state.")]
SourceTable = Annotated[str | None, typer.Option("--table", help="Those of this table.")]
Project = Annotated[str | None, typer.Option(help="Those of this project.")]
DeviceId = Annotated[str | None, typer.Option("--device", help="Those of this device.")]
Sure = Annotated[
    bool, typer.Option("--yes", "-y", help="Do it; without, --all only tells how many there are.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.callback()
def _list_by_default(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        list_reviews()


@app.command("list")
def list_reviews(
    state: State = None,
    table: SourceTable = None,
    project: Project = None,
    device: DeviceId = None,
    limit: HowManyOfTheNewest = 20,
    as_json: AsJson = False,
) -> None:
    """List reviews."""
    from ilyama_service.cli import reviews

    wanted = reviews.wanted(state=state, table=table, project=project, device=device)
    reviews.list_reviews(wanted, limit=limit, as_json=as_json)


@app.command("show")
def show(review_id: Id, column: Columns = None, as_json: AsJson = False) -> None:
    """Show a review with its evidence, and what approving it with these actions would do."""
    from ilyama_service.cli import reviews

    reviews.show(review_id, column or [], as_json=as_json)


@app.command("start")
def start(review_id: Id, version: Version = None, note: Note = None) -> None:
    """Mark a review as being looked at."""
    _act("start", review_id, version, note)


@app.command("approve")
def approve(
    review_id: Id, column: Columns = None, version: Version = None, note: Note = None
) -> None:
    """Bind the schema, in the whole project, and let the lineages go on."""
    _act("approve", review_id, version, note, column or [])


@app.command("decide")
def decide(
    review_id: Id, column: Columns = None, version: Version = None, note: Note = None
) -> None:
    """Decide columns that an approval has left for later, from the next batch on."""
    if not column:
        raise typer.BadParameter("Name a column that was left for later, with --column.")
    _act("decide", review_id, version, note, column)


def _closing(verb: str) -> Callable[..., None]:
    """The command that closes one review, or all that are named."""

    def close(
        review_id: OneOrAll = None,
        every: All = False,
        state: State = None,
        table: SourceTable = None,
        project: Project = None,
        device: DeviceId = None,
        version: Version = None,
        note: Note = None,
        sure: Sure = False,
    ) -> None:
        named = {"state": state, "table": table, "project": project, "device": device}
        _close(verb, review_id, named, every=every, version=version, note=note, sure=sure)

    return close


_CLOSED = {
    "reject": "Refuse a schema, or --all: lineages stay paused, their rows stay staged.",
    "abandon": "Leave it, or --all, undecided: "
    "a lineage goes on once its device sends an accepted schema.",
}
for _verb, _told in _CLOSED.items():
    app.command(_verb, help=_told)(_closing(_verb))


@app.command("reopen")
def reopen(review_id: Id, version: Version = None, note: Note = None) -> None:
    """Ask again about a schema whose decision keeps its lineage paused."""
    _act("reopen", review_id, version, note)


def _act(
    verb: str, review_id: int, version: int | None, note: str | None, columns: Sequence[str] = ()
) -> None:
    from ilyama_service.cli import reviews

    reviews.act(verb, review_id, version=version, note=note, columns=columns)


def _close(
    verb: str,
    review_id: int | None,
    named: dict[str, str | None],
    *,
    every: bool,
    version: int | None,
    note: str | None,
    sure: bool,
) -> None:
    from ilyama_service.cli import open_reviews

    if review_id is not None:
        if every or any(word is not None for word in named.values()):
            raise typer.BadParameter("Give the ID of a review or --all, not both.")
        _act(verb, review_id, version, note)
        return
    if not every:
        raise typer.BadParameter("Give the ID of a review, or --all with --table or the like.")
    if version is not None:
        raise typer.BadParameter("--version is for one review: give its ID.")
    open_reviews.close_all(verb, open_reviews.wanted(**named), note=note, sure=sure)


def policy(
    project: Annotated[
        str | None,
        typer.Option(
            help="This project only; '' is devices without one: choose for them without --project."
        ),
    ] = None,
    table: Annotated[
        str | None, typer.Option("--table", help="Of this table only; '' is every table.")
    ] = None,
    first_schema: Annotated[
        str | None, typer.Option(help="review or accept; inherit takes the choice back.")
    ] = None,
    additive: Annotated[
        str | None, typer.Option(help="on, off or inherit: additive schemas go on.")
    ] = None,
    auto_create: Annotated[
        str | None, typer.Option(help="on, off or inherit: approvals may create keys.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the governance policies, or those of a project or table; with a choice, set it first."""
    from ilyama_service.cli import policies

    if (first_schema, additive, auto_create) != (None, None, None):
        policies.choose(
            project or "",
            table or "",
            first_schema=first_schema,
            additive=additive,
            auto_create=auto_create,
        )
    policies.show(project, table, as_json=as_json)
