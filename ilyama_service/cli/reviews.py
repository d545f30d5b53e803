"""`ilyama review`: look at schemas that wait for a person, and decide on them."""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence

import msgspec
import typer
from rich.markup import escape
from rich.table import Table

from ilyama_protocol.governance.bindings import NAMES_A_KEY, Actions, ColumnAction, Verb, mirrored
from ilyama_protocol.governance.reviews import OPEN, ReviewState, ReviewVerb
from ilyama_protocol.identifiers import key_fault
from ilyama_resources.postgres.governance.reviews import Review, ReviewFilter
from ilyama_service.cli.consoles import console, name_unreadable
from ilyama_service.cli.records import actor, records, safe
from ilyama_service.review_evidence import Evidence, Trial, evidence_of
from ilyama_service.reviewing import Act, Reviewing, review_as_seen

_SHORT = 12
_KEYLESS = "|".join(verb for verb in Verb if verb not in NAMES_A_KEY)
_ACTION = re.compile(rf"(.+?)=(?:({_KEYLESS})|({'|'.join(NAMES_A_KEY)})(?::(.*))?)", re.DOTALL)
_DECIDED = {ReviewVerb.APPROVE: "approval", ReviewVerb.DECIDE: "later decision"}


def wanted(
    *, state: str | None, table: str | None, project: str | None, device: str | None
) -> ReviewFilter:
    """What was asked for; a state that there is not gets a sentence."""
    if state is not None and state not in list(ReviewState):
        states = ", ".join(ReviewState)
        raise typer.BadParameter(f"There is no state {state}; there are {states}.")
    chosen = None if state is None else ReviewState(state)
    return ReviewFilter(chosen, table, project, device)


def list_reviews(wanted: ReviewFilter, *, limit: int, as_json: bool) -> None:
    """Print reviews, the newest first."""
    with records() as (_, gateway), gateway.transaction() as tx:
        found = tx.reviews.page(wanted, limit=limit)
        waiting = tx.review_queue.waiting()
    if as_json:
        for review in found:
            typer.echo(msgspec.json.encode(review._asdict()).decode())
    else:
        console.print(_table(found) if found else "No review.", highlight=False)
        if waiting:
            console.print(f"{waiting:,} more schemas wait for room.", highlight=False)


def show(review_id: int, columns: Sequence[str], *, as_json: bool) -> None:
    """Print one review with its evidence."""
    named = named_actions(columns)
    with records() as (settings, gateway), gateway.transaction() as tx:
        review = review_as_seen(tx, review_id, None)
        actions = actions_of(review, named)
        if named:
            Reviewing(settings.policy).refuse_approval(tx, review, actions)
        evidence = evidence_of(tx, review, settings.warehouse, actions=actions)
    if as_json:
        typer.echo(msgspec.json.encode(review._asdict() | {"evidence": evidence}).decode())
        return
    name_unreadable(evidence.unreadable)
    _print([*_lines(review, evidence), *_way_to_approve(review, columns)])


def act(
    verb: str, review_id: int, *, version: int | None, note: str | None, columns: Sequence[str]
) -> None:
    """Act on a review, as it is now or as it was at a version."""
    chosen, named = ReviewVerb(verb), named_actions(columns)
    with records() as (settings, gateway), gateway.transaction() as tx:
        review = review_as_seen(tx, review_id, None)
        seen = review.action_version if version is None else version
        actions = actions_of(review, named) if chosen is ReviewVerb.APPROVE else named
        desk = Reviewing(settings.policy, most_open=settings.open_reviews_per_lineage)
        done = desk.act(tx, chosen, Act(review_id, seen, actor(), note), actions)
        tx.commit()
    _print([f"Review {done.review_id} is {done.state}, version {done.action_version}."])
    if chosen in _DECIDED:
        _print(_decided(chosen, seen, actions))


def named_actions(words: Sequence[str]) -> Actions:
    """The actions that somebody typed, by column; each column has one."""
    named: dict[str, ColumnAction] = {}
    for name, action in map(_action, words):
        if name in named:
            raise typer.BadParameter(f"{safe(name)} is named twice: say once what becomes of it.")
        named[name] = action
    return named


def actions_of(review: Review, named: Actions) -> Actions:
    """The actions of an approval: every column is mirrored but for those named."""
    return mirrored(review.column_names) | named


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        console.print(line, markup=False, highlight=False)


def _decided(verb: ReviewVerb, version: int, actions: Actions) -> Iterator[str]:
    """What an approval or a later decision says, of which version."""
    yield f"This is the {_DECIDED[verb]} of version {version}, by column:"
    if not actions:
        yield "column     none is known: all are left for later"
    for name, action in actions.items():
        key = "" if action.key is None else f":{safe(action.key)}"
        yield f"column     {safe(name)} -> {action.verb}{key}"


def _way_to_approve(review: Review, columns: Sequence[str]) -> Iterator[str]:
    """The command that approves what was shown, and nothing that came later."""
    if review.state in OPEN:
        options = [word for column in columns for word in ("--column", column)]
        version = ["--version", str(review.action_version)]
        words = ["ilyama", "review", "approve", str(review.review_id), *version, *options]
        yield f"approve    {safe(shlex.join(words))}"


def _action(word: str) -> tuple[str, ColumnAction]:
    """What becomes of a column; both its name and a key may have equals signs."""
    if (parted := _ACTION.fullmatch(word)) is None:
        verbs, keyed = ", ".join(Verb), " and ".join(sorted(NAMES_A_KEY))
        told = f"{safe(word)} is not NAME=ACTION[:KEY] with one of {verbs}"
        raise typer.BadParameter(f"{told}; only {keyed} take a key.")
    name, alone, with_key, key = parted.groups()
    action = ColumnAction(Verb(alone or with_key), key)
    if key is not None and (fault := key_fault(key)) is not None:
        raise typer.BadParameter(f"{safe(name)}={action.verb}: {fault}.")
    return name, action


def _table(reviews: Sequence[Review]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("review", "state", "class", "table", "device", "project", "schema"):
        table.add_column(name, justify="right" if name == "review" else "left", overflow="fold")
    for review in reviews:
        table.add_row(
            str(review.review_id),
            review.state,
            review.schema_class,
            escape(safe(review.source_table)),
            escape(safe(review.device_id)),
            escape(safe(review.project_id or "-")),
            review.schema_hash[:_SHORT],
        )
    return table


def _lines(review: Review, evidence: Evidence) -> Iterator[str]:
    yield f"review     {review.review_id}, {review.state}, version {review.action_version}"
    yield f"schema     {review.schema_hash}, {review.schema_class}"
    yield f"table      {safe(review.source_table)} of {safe(review.device_id)}"
    yield f"project    {safe(review.project_id or 'none')}"
    yield f"opened     {review.opened_at:%Y-%m-%d %H:%M} UTC by drain {review.opened_by}"
    if review.decided_by is not None:
        yield f"decided    {review.decided_at:%Y-%m-%d %H:%M} UTC by {safe(review.decided_by)}"
    if review.note is not None:
        yield f"note       {safe(review.note)}"
    yield from _differences(evidence)
    yield from _columns(review)
    yield from _consequences(evidence)


def _differences(evidence: Evidence) -> Iterator[str]:
    yield f"last       {evidence.last_accepted or 'nothing was accepted before'}"
    for change, columns in evidence.diff.items():
        yield f"           {change.replace('_', ' ')}: {', '.join(map(safe, columns))}"


def _columns(review: Review) -> Iterator[str]:
    actions = review.actions or {}
    for column in review.columns or ():
        key = f", place {column.pk_ordinal} of the key" if column.pk_ordinal else ""
        needed = ", NOT NULL" if column.not_null else ""
        done = f" -> {actions[column.name].verb}" if column.name in actions else ""
        yield f"column     {safe(column.name)} {column.decl_type_affinity}{key}{needed}{done}"
    if review.columns is None:
        yield f"columns    never announced; seen: {', '.join(map(safe, review.seen_columns))}"


def _consequences(evidence: Evidence) -> Iterator[str]:
    senders, staged, trial = evidence.senders, evidence.staged, evidence.dry_run
    firmware = ", ".join(f"{safe(v)} ({n:,})" for v, n in senders.firmware_versions.items())
    yield f"senders    {senders.count:,} devices; firmware {firmware}"
    yield f"staged     {staged.rows:,} rows, {staged.bytes:,} bytes"
    if evidence.waiting:
        yield f"behind it  {evidence.waiting:,} more schemas of the lineage wait for room"
    yield f"keys       {', '.join(map(safe, evidence.downstream.keys)) or 'none'}"
    yield f"assets     {', '.join(evidence.downstream.assets) or 'none'}"
    told = f"{trial.result.would_materialize:,} rows would be shown"
    kept = f"{trial.result.would_stay_staged:,} would stay staged"
    points = f"{trial.result.datapoints:,} datapoints"
    looked = looked_at(trial, is_damaged=bool(evidence.unreadable))
    yield f"dry run    of {looked}: {told} ({points}), {kept}"


def looked_at(trial: Trial, *, is_damaged: bool) -> str:
    """How many of how many rows and devices a dry run looked at."""
    if trial.complete:
        return "all"
    which = "those that can be read" if is_damaged else "the oldest of each device"
    rows = f"{trial.rows:,} of {trial.of_rows:,} rows"
    return f"{which}, {rows} from {trial.devices:,} of {trial.of_devices:,} devices"
