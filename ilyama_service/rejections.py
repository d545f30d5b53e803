"""What a person may do with rejections: explain, replay, discard; each leaves a line in the audit.

RejectionRefused
├── NoSuchRejection    there is none under this id, or in this group
├── WrongState         its life has taken another turn
└── TooLarge           no message is as long as the corrected bytes
"""

from __future__ import annotations

import hashlib
from typing import Any, Final, NamedTuple

from ilyama_resources.errors import PlatformError
from ilyama_resources.postgres import Transaction
from ilyama_resources.postgres.rejection_replays import ReplayRequest
from ilyama_resources.postgres.rejections import (
    OPEN_STATES,
    Rejection,
    RejectionFilter,
    RejectionState,
)

_WHY_NOT: Final = {
    RejectionState.REPLAYED: "a replay of it is under way",
    RejectionState.ACCEPTED: "it was accepted",
    RejectionState.DISCARDED: "it was discarded",
}


class RejectionRefused(PlatformError):
    """What was asked for cannot be done."""


class NoSuchRejection(RejectionRefused):
    """There is no such rejection."""


class WrongState(RejectionRefused):
    """Its state does not allow what was asked for."""


class TooLarge(RejectionRefused):
    """Corrected bytes that can only be rejected again."""


class GroupDone(NamedTuple):
    """With how many of a group it was done now, and how many are left for another request."""

    done: int
    left: int


def told_state(rejection: Rejection) -> str:
    """The state in words: one that was replayed in vain is rejected again."""
    refused = RejectionState.REJECTED
    again = rejection.state is refused and rejection.last_outcome == refused
    return f"{rejection.state} again" if again else rejection.state.value


def explain(tx: Transaction, rejection_id: str, *, note: str, actor: str) -> Rejection:
    """Add a note; an earlier one is replaced."""
    before = _open_one(tx, rejection_id, verb="explained")
    tx.rejections.move(rejection_id, RejectionState.EXPLAINED, note=note)
    return _audited(tx, before, verb="explain", actor=actor, more={"note": note})


def discard(tx: Transaction, rejection_id: str, *, note: str | None, actor: str) -> Rejection:
    """Mark it as one that nobody will replay; nothing is deleted."""
    before = _open_one(tx, rejection_id, verb="discarded")
    kept = before.note if note is None else note
    tx.rejections.move(rejection_id, RejectionState.DISCARDED, note=kept)
    return _audited(tx, before, verb="discard", actor=actor, more={"note": kept})


def refuse_too_large(corrected: bytes, *, most: int) -> None:
    """Refuse corrected bytes that are no message for their size alone."""
    if len(corrected) > most:
        raise TooLarge(
            f"Corrected bytes are at most {most:,} (ILYAMA_PAYLOAD_MAX_BYTES); a longer message "
            "would only be rejected again, with payload_too_large."
        )


def replay(tx: Transaction, rejection_id: str, *, corrected: bytes | None, actor: str) -> Rejection:
    """Ask for a replay, with other bytes when they are given."""
    tx.rejection_replays.alone()
    before = _open_one(tx, rejection_id, verb="replayed")
    wanted = RejectionFilter(rejection_id=rejection_id)
    tx.rejection_replays.request(wanted, ReplayRequest(actor, corrected))
    return _audited(tx, before, verb="replay", actor=actor, more=_told_bytes(corrected))


def replay_group(tx: Transaction, wanted: RejectionFilter, *, actor: str) -> GroupDone:
    """Ask for a replay of every open rejection of a group."""
    _known_group(tx, wanted)
    replayed = tx.rejection_replays.request(wanted, ReplayRequest(actor))
    if not replayed:
        raise WrongState(f"No rejection {_told_group(wanted)} is open.")
    _audit_group(tx, wanted, "replay", actor, {"replayed": replayed})
    return GroupDone(replayed, tx.rejections.count_open(wanted))


def explain_group(tx: Transaction, wanted: RejectionFilter, *, note: str, actor: str) -> GroupDone:
    """Give every open rejection of a group the same note."""
    _known_group(tx, wanted)
    explained = tx.rejections.explain_open(wanted, note=note)
    if not explained:
        raise WrongState(
            f"No rejection {_told_group(wanted)} is open and not explained by this note."
        )
    _audit_group(tx, wanted, "explain", actor, {"explained": explained, "note": note})
    return GroupDone(explained, tx.rejections.count_open(wanted, but_noted=note))


def discard_group(
    tx: Transaction, wanted: RejectionFilter, *, note: str | None, actor: str
) -> GroupDone:
    """Mark every open rejection of a group as one that nobody will replay."""
    _known_group(tx, wanted)
    discarded = tx.rejections.discard_open(wanted, note=note)
    if not discarded:
        raise WrongState(f"No rejection {_told_group(wanted)} is open.")
    _audit_group(tx, wanted, "discard", actor, {"discarded": discarded, "note": note})
    return GroupDone(discarded, tx.rejections.count_open(wanted))


def _known_group(tx: Transaction, wanted: RejectionFilter) -> None:
    """Refuse a group that is none; whoever locks many rejections does so alone."""
    tx.rejection_replays.alone()
    if not tx.rejections.count(wanted):
        raise NoSuchRejection(f"There is no rejection {_told_group(wanted)}.")


def _audit_group(
    tx: Transaction, wanted: RejectionFilter, verb: str, actor: str, done: dict[str, Any]
) -> None:
    group = {name: value for name, value in wanted._asdict().items() if value is not None}
    tx.audit.record(actor=actor, verb=verb, resource="rejections", new=group | done)


def _open_one(tx: Transaction, rejection_id: str, *, verb: str) -> Rejection:
    found = tx.rejections.find(rejection_id, locked=True)
    if found is None:
        raise NoSuchRejection(f"There is no rejection {rejection_id}.")
    if found.state not in OPEN_STATES:
        told = f"Rejection {rejection_id} cannot be {verb}: {_WHY_NOT[found.state]}."
        raise WrongState(told)
    return found


def _audited(
    tx: Transaction, before: Rejection, *, verb: str, actor: str, more: dict[str, Any]
) -> Rejection:
    after = tx.rejections.find(before.rejection_id) or before
    tx.audit.record(
        actor=actor,
        verb=verb,
        resource=f"rejection/{before.rejection_id}",
        old={"state": before.state.value, "note": before.note, "replays": before.replays},
        new={"state": after.state.value, "replays": after.replays} | more,
    )
    return after


def _told_bytes(corrected: bytes | None) -> dict[str, Any]:
    if corrected is None:
        return {}
    digest = hashlib.sha256(corrected).hexdigest()
    return {"corrected_bytes": len(corrected), "corrected_sha256": digest}


def _told_group(wanted: RejectionFilter) -> str:
    told = (
        (f"with code {wanted.code}", wanted.code),
        (f"of table {wanted.source_table}", wanted.source_table),
        (f"of firmware {wanted.firmware_version}", wanted.firmware_version),
        (f"of device {wanted.device_id}", wanted.device_id),
    )
    return " ".join(words for words, given in told if given is not None)
