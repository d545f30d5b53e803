"""`ilyama rejections`: look at rejections, and decide what becomes of them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import typer

from ilyama_resources.delta.reading import MessagePlace
from ilyama_resources.delta.rejected_bytes import RejectedMessage, rejected_messages
from ilyama_resources.delta.unreadable import Unreadable
from ilyama_resources.errors import PlatformError
from ilyama_resources.postgres.rejection_replays import PastReplay
from ilyama_resources.postgres.rejections import (
    MOST_AT_ONCE,
    Rejection,
    RejectionFilter,
    RejectionGroup,
    RejectionState,
)
from ilyama_resources.settings import load_settings
from ilyama_service import rejections
from ilyama_service.cli.consoles import console, name_unreadable
from ilyama_service.cli.records import actor, changed, records, safe
from ilyama_service.cli.rejection_lists import show_each, show_groups
from ilyama_service.rejections import GroupDone, NoSuchRejection

_SHOWN_CHARACTERS = 2_000
_TAKEN_UP = "A running platform takes it up by itself; else `ilyama drain` does."


def wanted(
    *,
    code: str | None,
    table: str | None,
    firmware: str | None,
    device: str | None,
    state: str | None = None,
) -> RejectionFilter:
    """What was asked for; a state that there is not gets a sentence."""
    if state is not None and state not in list(RejectionState):
        states = ", ".join(RejectionState)
        raise typer.BadParameter(f"There is no state {state}; there are {states}.")
    return RejectionFilter(code, table, firmware, state, device)


def list_groups(wanted: RejectionFilter, *, limit: int, as_json: bool) -> None:
    """Print the largest groups."""
    with records() as (_, gateway), gateway.transaction() as tx:
        groups = tx.rejections.largest_groups(wanted, limit=limit)
    if as_json:
        _print_json(groups)
    else:
        show_groups(groups)


def list_each(wanted: RejectionFilter, *, limit: int, as_json: bool) -> None:
    """Print the newest rejections one by one."""
    with records() as (_, gateway), gateway.transaction() as tx:
        found = tx.rejections.newest(wanted, limit=limit)
    if as_json:
        _print_json(found)
    else:
        show_each(found)


def _print_json(found: Sequence[RejectionGroup | Rejection]) -> None:
    for told in found:
        typer.echo(msgspec.json.encode(told._asdict()).decode())


def show(rejection_id: str, *, save: Path | None) -> None:
    """Print one rejection, and write its bytes to a file when that was asked for."""
    with records() as (settings, gateway):
        with gateway.transaction() as tx:
            found = tx.rejections.find(rejection_id)
            past = tx.rejection_replays.of(rejection_id)
        if found is None:
            raise NoSuchRejection(f"There is no rejection {rejection_id}.")
        place = MessagePlace(found.segment_id, found.position, found.day, found.drain_id)
        unreadable = Unreadable(settings.warehouse)
        message = rejected_messages(settings.warehouse, [place], unreadable).get(place.key)
    for line in _lines(found, past):
        console.print(line, markup=False, highlight=False)
    name_unreadable(unreadable.files)
    if message is None:
        console.print(f"bytes      {'unreadable' if unreadable.files else 'no longer kept'}")
    else:
        _show_bytes(message, save)


def _lines(found: Rejection, past: Sequence[PastReplay]) -> Iterator[str]:
    yield f"rejection  {found.rejection_id}, {rejections.told_state(found)}"
    yield f"code       {found.code} at {safe(found.json_path)}; the device should {found.action}"
    yield f"message    {safe(found.message)}"
    if found.first_code != found.code:
        yield f"at first   {found.first_code}"
    yield f"device     {safe(found.device_id) or 'unknown'}, {safe(found.firmware_version)}"
    yield f"topic      {safe(found.topic)}"
    yield f"table      {safe(found.source_table) or 'unknown'}"
    yield f"received   {found.received_at:%Y-%m-%d %H:%M:%S.%f} UTC, drain {found.drain_id}"
    yield f"original   segment {found.segment_id}, position {found.position}"
    if found.note is not None:
        yield f"note       {safe(found.note)}"
    for replay in past:
        yield from _told_replay(replay)


def _told_replay(replay: PastReplay) -> Iterator[str]:
    """What was asked for and came of it, and where its line of the ledger is."""
    with_what = "corrected bytes" if replay.corrected else "its own bytes"
    outcome = replay.outcome or "under way"
    told = f"{outcome} with {replay.code}" if replay.code else outcome
    who = f"{replay.requested_at:%Y-%m-%d %H:%M} by {safe(replay.requested_by)}"
    yield f"replay {replay.attempt:<3} {who}, {with_what}: {told}"
    if replay.position is not None:
        drain = "no drain yet" if replay.drain_id is None else f"drain {replay.drain_id}"
        yield f"           {drain}, segment {replay.segment_id}, position {replay.position}"


def _save(payload: bytes, file: Path) -> None:
    try:
        file.write_bytes(payload)
    except OSError as error:
        raise PlatformError(f"{file} cannot be written: {error.strerror}") from error


def _show_bytes(message: RejectedMessage, save: Path | None) -> None:
    if save is not None:
        _save(message.payload, save)
        told = f"bytes      {len(message.payload):,} written to {save}"
        console.print(told, markup=False, highlight=False)
    else:
        text = safe(message.payload.decode(errors="backslashreplace"))
        more = " ..." if len(text) > _SHOWN_CHARACTERS else ""
        console.print(f"bytes      {len(message.payload):,}", highlight=False)
        console.print(f"{text[:_SHOWN_CHARACTERS]}{more}", markup=False, highlight=False)


def _corrected_bytes(file: Path) -> bytes:
    """What a file holds; of one that is too large no more is read than tells so."""
    most = load_settings().payload_max_bytes
    with file.open("rb") as opened:
        payload = opened.read(most + 1)
    rejections.refuse_too_large(payload, most=most)
    return payload


def replay_one(rejection_id: str, corrected: Path | None) -> None:
    """Ask for a replay of one rejection."""
    payload = None if corrected is None else _corrected_bytes(corrected)
    changed(lambda tx: rejections.replay(tx, rejection_id, corrected=payload, actor=actor()))
    console.print(f"A replay was asked for. {_TAKEN_UP}", highlight=False)


def replay_group(wanted: RejectionFilter, *, sure: bool) -> None:
    """Ask for a replay of every open rejection of a group; unless one is sure, only count."""
    if not sure:
        _tell(wanted, "replayed")
        return
    done = changed(lambda tx: rejections.replay_group(tx, wanted, actor=actor()))
    _told_done("replayed", done)
    console.print(_TAKEN_UP, highlight=False)


def explain(rejection_id: str, note: str) -> None:
    """Add a note to a rejection."""
    if not note:
        raise typer.BadParameter("A note says something: it is not empty.")
    changed(lambda tx: rejections.explain(tx, rejection_id, note=note, actor=actor()))
    console.print("Explained.")


def explain_group(wanted: RejectionFilter, note: str, *, sure: bool) -> None:
    """Give every open rejection of a group the same note; unless one is sure, only count."""
    if not note:
        raise typer.BadParameter("A note says something: it is not empty.")
    if not sure:
        _tell(wanted, "explained", but_noted=note)
        return
    done = changed(lambda tx: rejections.explain_group(tx, wanted, note=note, actor=actor()))
    _told_done("explained", done)


def discard_group(wanted: RejectionFilter, note: str | None, *, sure: bool) -> None:
    """Set every open rejection of a group aside; unless one is sure, only count."""
    if not sure:
        _tell(wanted, "discarded")
        return
    done = changed(lambda tx: rejections.discard_group(tx, wanted, note=note, actor=actor()))
    _told_done("discarded", done)


def _tell(wanted: RejectionFilter, became: str, *, but_noted: str | None = None) -> None:
    with records() as (_, gateway), gateway.transaction() as tx:
        count = tx.rejections.count_open(wanted, but_noted=but_noted)
    told = f"Rejections that would be {became}: {count:,}, at most {MOST_AT_ONCE:,} at a time."
    console.print(f"{told} Nothing was done: say --yes.", highlight=False)


def _told_done(became: str, done: GroupDone) -> None:
    left = f" {done.left:,} more are open: run the command again." if done.left else ""
    console.print(f"Rejections that are {became} now: {done.done:,}.{left}", highlight=False)


def discard(rejection_id: str, note: str | None) -> None:
    """Mark a rejection as one that nobody will replay."""
    changed(lambda tx: rejections.discard(tx, rejection_id, note=note, actor=actor()))
    console.print("Discarded. Its bytes are kept.")
