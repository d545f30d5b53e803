"""A cursor leads back to its place, and nothing else does."""

from datetime import date
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ilyama_protocol.canonical import canonical_json
from ilyama_resources.delta.key_conflicts import ConflictPlace
from ilyama_resources.postgres.current_values import CurrentValuePlace
from ilyama_resources.postgres.ledger import LedgerPlace
from ilyama_service.api.cursors import (
    NumberPlace,
    PageQuery,
    decode_cursor,
    encode_cursor,
    newest_first,
    page_of,
)
from ilyama_service.api.errors import UnknownCursor

ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
TEXT = ANY_TEXT.filter(lambda text: "\0" not in text)
LIKE_AN_ESCAPED_NUL = r"a\u0000b"


@given(TEXT, TEXT, TEXT, st.uuids())
@example(LIKE_AN_ESCAPED_NUL, LIKE_AN_ESCAPED_NUL, LIKE_AN_ESCAPED_NUL, UUID(int=1))
def test_a_place_of_a_value_survives(owner: str, key: str, instance: str, identity: UUID) -> None:
    place = CurrentValuePlace(owner, key, instance, identity)
    assert decode_cursor(encode_cursor(place), CurrentValuePlace) == place


@given(st.dates(), TEXT)
@example(date(2026, 4, 28), LIKE_AN_ESCAPED_NUL)
def test_a_place_in_the_ledger_survives(day: date, device_id: str) -> None:
    place = LedgerPlace(day, device_id, "t", "rows", "accepted")
    assert decode_cursor(encode_cursor(place), LedgerPlace) == place


@given(st.dictionaries(ANY_TEXT, ANY_TEXT, min_size=1))
@example({"a\0b": LIKE_AN_ESCAPED_NUL})
@example({LIKE_AN_ESCAPED_NUL: "\0"})
def test_a_place_among_conflicts_survives_whatever_the_key_holds(pk: dict[str, str]) -> None:
    key = canonical_json(pk)
    for told in (key, next(iter(pk))):
        place = ConflictPlace(date(2026, 4, 28), "acme/dev-7", "t", "row", told, "0" * 64)
        assert decode_cursor(encode_cursor(place), ConflictPlace, may_hold_nul=True) == place


def test_no_cursor_is_the_beginning() -> None:
    assert decode_cursor(None, NumberPlace) is None


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "x",
        "garbage",
        "é",
        "=" * 5,
        encode_cursor([]),
        encode_cursor([0]),
        encode_cursor([2**63]),
        encode_cursor(["1"]),
        encode_cursor([1, 2]),
        encode_cursor("\0"),
        "W1tb" * 10_000,
    ],
)
def test_what_no_list_has_given_out_is_refused(cursor: str) -> None:
    with pytest.raises(UnknownCursor):
        decode_cursor(cursor, NumberPlace)


def test_a_place_with_nul_is_refused() -> None:
    forged = encode_cursor(["a\0", "k", "i", UUID(int=1)])
    with pytest.raises(UnknownCursor):
        decode_cursor(forged, CurrentValuePlace)


def test_a_page_has_a_cursor_only_when_more_follows() -> None:
    assert page_of([1, 2], limit=2, place=lambda item: item) == ([1, 2], None)
    items, cursor = page_of([1, 2, 3], limit=2, place=lambda item: [item])
    assert items == [1, 2]
    assert decode_cursor(cursor, NumberPlace) == NumberPlace(2)


def test_numbered_items_are_read_from_the_highest_down() -> None:
    def below(before: int | None, limit: int) -> list[int]:
        return [number for number in range(7, 0, -1) if before is None or number < before][:limit]

    pages: list[list[int]] = []
    cursor = None
    while not pages or cursor is not None:
        query = PageQuery(limit=3, cursor=cursor)
        items, cursor = newest_first(query, below, lambda number: number)
        pages.append([*items])
    assert pages == [[7, 6, 5], [4, 3, 2], [1]]
