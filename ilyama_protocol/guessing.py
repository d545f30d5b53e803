"""Guesses: which topic a payload was meant for, told by members that only one kind has."""

from collections.abc import Mapping
from typing import Any

import msgspec

from ilyama_protocol.topics import SYNC_PATHS, MessageKind
from ilyama_protocol.validation.envelopes import CAPTURE_STRATEGIES

_TELLING_MEMBERS = {
    "journal_epoch": MessageKind.ROWS,
    "first_commit_seq": MessageKind.ROWS,
    "last_commit_seq": MessageKind.ROWS,
    "batch_seq": MessageKind.TELEMETRY,
    "cursor_start_ts": MessageKind.TELEMETRY,
    "cursor_end_ts": MessageKind.TELEMETRY,
    "row_count": MessageKind.TELEMETRY,
    "observed_at": MessageKind.OBSERVE,
    "control_id": MessageKind.ACK,
    "request_kind": MessageKind.REQUEST,
}
_KIND_OF_STRATEGY = {strategy: kind for kind, strategy in CAPTURE_STRATEGIES.items()}
_PATH_OF_KIND = {kind: path for path, kind in SYNC_PATHS.items()}


def guessed_path(payload: bytes) -> str | None:
    """Return the path below a device's root that a payload is for, None when it does not tell."""
    try:
        document = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    kinds = _hints(document)
    return _PATH_OF_KIND[kinds.pop()] if len(kinds) == 1 else None


def _hints(document: Mapping[str, Any]) -> set[MessageKind]:
    """The kinds that speak for themselves; a capture strategy outweighs members."""
    strategy = document.get("capture_strategy")
    named = _KIND_OF_STRATEGY.get(strategy) if isinstance(strategy, str) else None
    if named is not None:
        return {named}
    return {kind for name, kind in _TELLING_MEMBERS.items() if name in document}
