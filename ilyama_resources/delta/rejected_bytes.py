"""The bytes of rejected messages, and what came with them, from the tables that keep them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from ilyama_resources.delta.reading import MessagePlace, rows_at
from ilyama_resources.delta.unreadable import Unreadable


class RejectedMessage(NamedTuple):
    """A rejected message as it was published."""

    topic: str
    payload: bytes
    qos: int = 1
    user_properties: dict[str, str] | None = None


def rejected_messages(
    warehouse: Path, places: Sequence[MessagePlace], unreadable: Unreadable
) -> dict[str, RejectedMessage]:
    """The messages at places, by the key of each; those that are gone are left out.

    Properties are kept for a shorter time than bytes; a message without them has none. Files that
    cannot be read are noted, and hold nothing.
    """
    found: dict[str, RejectedMessage] = {}
    kept = ("topic", "payload")
    for batch in rows_at(warehouse, "rejected_batches", kept, places=places, unreadable=unreadable):
        for row in batch.to_pylist():
            found[_key(row)] = RejectedMessage(row["topic"], row["payload"])
    beside = ("qos", "user_properties")
    for batch in rows_at(warehouse, "raw_batches", beside, places=places, unreadable=unreadable):
        for row in batch.to_pylist():
            known = found.get(_key(row))
            if known is not None:
                properties = msgspec.json.decode(row["user_properties"] or "{}")
                found[_key(row)] = known._replace(qos=row["qos"], user_properties=properties)
    return found


def _key(row: dict[str, object]) -> str:
    return f"{row['segment_id']}/{row['position']}"
