"""Messages that came before their device was known get places on its clock, each its own."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ilyama_protocol.intake.clock_places import ClockPlace, ClockPlaces

SIZES = st.integers(0, 2_000)
MOMENTS = st.integers(0, 300)


@pytest.mark.parametrize(
    ("taken", "at", "size", "expected"),
    [
        pytest.param([], 7, 100, 7, id="an-empty-clock"),
        pytest.param([ClockPlace(7, 0)], 7, 0, 8, id="the-same-moment"),
        pytest.param([ClockPlace(7, 80)], 9, 0, 10, id="within-another"),
        pytest.param([ClockPlace(7, 80)], 10, 0, 10, id="right-after"),
        pytest.param([ClockPlace(7, 80)], 6, 0, 6, id="right-before"),
        pytest.param([ClockPlace(7, 0)], 6, 40, 8, id="too-long-for-the-gap"),
        pytest.param([ClockPlace(7, 0), ClockPlace(9, 0)], 6, 40, 10, id="past-several"),
    ],
)
def test_a_message_has_the_first_place_that_is_free(
    taken: list[ClockPlace], at: int, size: int, expected: int
) -> None:
    assert ClockPlaces(taken).take(at, size) == ClockPlace(expected, size)


@given(
    st.lists(st.tuples(MOMENTS, SIZES), max_size=8),
    st.lists(st.tuples(MOMENTS, SIZES), max_size=12),
)
def test_no_two_places_overlap_and_none_is_too_early(
    first: list[tuple[int, int]], later: list[tuple[int, int]]
) -> None:
    before = ClockPlaces()
    known = [before.take(at, size) for at, size in first]
    clock = ClockPlaces(known)
    given_places = [clock.take(at, size) for at, size in later]
    assert all(place.at >= at for place, (at, _) in zip(given_places, later, strict=True))
    assert all(one.end <= other.at for one, other in pairwise(sorted([*known, *given_places])))
