"""`ilyama review reject --all`, `abandon --all`: close many reviews that nobody needs to read."""

import typer

from ilyama_protocol.governance.reviews import OPEN, STEPS, ReviewVerb
from ilyama_resources.postgres.governance.reviews import ReviewFilter
from ilyama_service.cli import reviews
from ilyama_service.cli.consoles import console
from ilyama_service.cli.records import actor, records
from ilyama_service.reviewing import MOST_AT_ONCE, Closing, Reviewing


def wanted(
    *, state: str | None, table: str | None, project: str | None, device: str | None
) -> ReviewFilter:
    """What was asked for: open reviews, and not simply all that there are."""
    found = reviews.wanted(state=state, table=table, project=project, device=device)
    if found.state is not None and found.state not in OPEN:
        raise typer.BadParameter(f"Reviews that are {state} are closed.")
    if found._replace(state=None) == ReviewFilter():
        raise typer.BadParameter("Name a --table, a --project or a --device beside --all.")
    return found


def close_all(verb: str, wanted: ReviewFilter, *, note: str | None, sure: bool) -> None:
    """Close all open reviews of a filter; unless one is sure, only tell how many there are."""
    closing = Closing(ReviewVerb(verb), wanted, actor(), note)
    if sure:
        _carry_out(closing)
    else:
        _tell(closing)


def _carry_out(closing: Closing) -> None:
    with records() as (settings, gateway), gateway.transaction() as tx:
        desk = Reviewing(settings.policy, most_open=settings.open_reviews_per_lineage)
        done = desk.close_all(tx, closing)
        tx.commit()
    after = STEPS[closing.verb].after
    left = f" {done.left:,} more are open: run the command again." if done.left else ""
    console.print(f"Reviews that are {after} now: {done.closed:,}.{left}", highlight=False)


def _tell(closing: Closing) -> None:
    with records() as (_, gateway), gateway.transaction() as tx:
        count = tx.open_reviews.count(closing.wanted)
    after = STEPS[closing.verb].after
    told = f"Open reviews that would be {after}: {count:,}, at most {MOST_AT_ONCE:,} at a time."
    console.print(f"{told} Nothing was done: say --yes.", highlight=False)
