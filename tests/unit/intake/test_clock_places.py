"""Messages that came before their device was known get places on its clock, each its own."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ilyama_protocol.intake.clock_places import ClockPlace, ClockPlaces, moments_of
from tests.unit.intake.traffic import TELEMETRY_TOPIC, TOPIC, batch, change, sample, telemetry

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


@pytest.mark.parametrize(
    ("topic", "payload", "moments"),
    [
        pytest.param(TOPIC, batch(change(1), change(2), change(3)), 3, id="rows"),
        pytest.param(TOPIC, batch(*map(change, range(9_000))), 9_000, id="very-many-rows"),
        pytest.param(TOPIC, batch(change(1), change(2))[:-1], 1, id="rows-that-are-no-json"),
        pytest.param(TELEMETRY_TOPIC, telemetry(sample(1), sample(2)), 1, id="telemetry"),
        pytest.param("devices/dev-1/telemetry", b"{}", 1, id="of-the-device-itself"),
        pytest.param("nonsense", b"", 1, id="on-no-topic"),
    ],
)
def test_only_rows_take_up_more_than_one_moment(topic: str, payload: bytes, moments: int) -> None:
    assert moments_of(topic, payload) == moments


@given(MOMENTS, SIZES, st.integers(1, 60))
def test_rows_fit_that_end_before_the_next_message_may_begin(at: int, size: int, rows: int) -> None:
    taken = ClockPlaces([ClockPlace(at, size)])
    next_one = taken.take(at, 0)

    assert ClockPlace(at, size).fits(rows) == (at + rows - 1 < next_one.at)
