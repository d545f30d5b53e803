"""Cursors: where a page ended, as a text that a client hands back unread."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from typing import Annotated, Final, Generic, NamedTuple, TypeVar

import msgspec
from pydantic import BaseModel, ConfigDict, Field

from ilyama_service.api.errors import UnknownCursor
from ilyama_service.api.naming import Renamed

DEFAULT_LIMIT = 100
MOST_ITEMS = 1000
HIGHEST_ID: Final = 2**63 - 1
"""The highest number that Postgres gives out."""
_NUL: Final = "\0"

Item = TypeVar("Item")
Place = TypeVar("Place", bound=tuple[object, ...])


class PageQuery(Renamed):
    """The parameters that every list takes; others are refused."""

    model_config = ConfigDict(extra="forbid")

    limit: Annotated[int, Field(ge=1, le=MOST_ITEMS, description="Most items of the answer.")] = (
        DEFAULT_LIMIT
    )
    cursor: Annotated[
        str | None, Field(description="`next_cursor` of the answer before; none at the beginning.")
    ] = None


class Page(BaseModel, Generic[Item]):
    """A part of a list."""

    items: list[Item]
    next_cursor: str | None = Field(description="Where to go on; null at the end.")


def page_of(
    found: Sequence[Item], *, limit: int, place: Callable[[Item], object]
) -> tuple[Sequence[Item], str | None]:
    """The items of a page and its cursor, given one item more than fits when there are more."""
    if len(found) <= limit:
        return found, None
    items = found[:limit]
    return items, encode_cursor(place(items[-1]))


class NumberPlace(NamedTuple):
    """Where a page of what is numbered ended."""

    number: Annotated[int, msgspec.Meta(ge=1, le=HIGHEST_ID)]


def newest_first(
    query: PageQuery,
    find: Callable[[int | None, int], Sequence[Item]],
    number: Callable[[Item], int],
) -> tuple[Sequence[Item], str | None]:
    """A page and its cursor, given how to find so many items below a number, the highest first."""
    last = decode_cursor(query.cursor, NumberPlace)
    found = find(None if last is None else last.number, query.limit + 1)
    return page_of(found, limit=query.limit, place=lambda item: NumberPlace(number(item)))


def encode_cursor(place: object) -> str:
    """A place as a cursor."""
    return urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def decode_cursor(
    cursor: str | None, kind: type[Place], *, may_hold_nul: bool = False
) -> Place | None:
    """The place that a cursor names; None at the beginning.

    Postgres holds no U+0000, so only a place in Delta may have one.

    Raises:
        UnknownCursor: It names none.
    """
    if cursor is None:
        return None
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        place = msgspec.json.decode(urlsafe_b64decode(padded.encode("ascii")), type=kind)
        if not may_hold_nul and _has_nul(place):
            raise ValueError("Postgres holds no U+0000, so none of its places has one")
    except (ValueError, RecursionError) as error:
        message = "No list has given out this cursor; begin again without one."
        raise UnknownCursor(message) from error
    return place


def _has_nul(place: tuple[object, ...]) -> bool:
    return any(isinstance(word, str) and _NUL in word for word in place)
