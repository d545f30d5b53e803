"""Segments are named by UUIDv7s whose order is the order of landing."""

from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ilyama_protocol.identifiers import is_uuid7
from ilyama_resources.landing.segment_ids import RisingIds, SegmentIds

STARTS = st.integers(0, 2**47)
TAILS = st.integers(0, 2**62 - 1)
ORDINALS = st.integers(0, 10_000_000)


@given(STARTS, TAILS, ORDINALS)
def test_every_id_is_a_uuid_of_version_7(started_ms: int, tail: int, ordinal: int) -> None:
    name = SegmentIds(started_ms, tail)[ordinal]

    assert is_uuid7(name)
    assert name == str(UUID(name))


@given(STARTS, TAILS, ORDINALS, ORDINALS)
def test_ids_sort_as_their_ordinals(started_ms: int, tail: int, one: int, two: int) -> None:
    ids = SegmentIds(started_ms, tail)

    assert (ids[one] < ids[two]) == (one < two)
    assert (ids[one] == ids[two]) == (one == two)


@given(STARTS, TAILS, ORDINALS)
def test_the_same_seed_gives_the_same_ids(started_ms: int, tail: int, ordinal: int) -> None:
    assert SegmentIds(started_ms, tail)[ordinal] == SegmentIds(started_ms, tail)[ordinal]


def test_ids_tell_when_they_began() -> None:
    began = 1_777_366_800_123

    assert UUID(SegmentIds(began, 0)[0]).int >> 80 == began
    assert UUID(SegmentIds(began, 0)[4095]).int >> 80 == began
    assert UUID(SegmentIds(began, 0)[4096]).int >> 80 == began + 1


def test_fresh_ids_begin_now_and_differ() -> None:
    before = int(datetime.now(UTC).timestamp() * 1000)
    one, two = SegmentIds.fresh(), SegmentIds.fresh()

    assert before <= one.started_ms <= int(datetime.now(UTC).timestamp() * 1000)
    assert one[0] != two[0]


def test_ids_rise_even_when_the_clock_stands_still_or_goes_back(tmp_path: Path) -> None:
    clock = iter([1_000, 1_000, 500, 2_000])
    ids = RisingIds(tmp_path / "last_id", now_ms=lambda: next(clock))
    made = [ids.next() for _ in range(4)]
    assert made == sorted(set(made))
    assert all(map(is_uuid7, made))
    assert UUID(made[-1]).int >> 80 == 2_000


def test_ids_of_a_later_holder_rise_above_those_of_an_earlier(tmp_path: Path) -> None:
    earlier = RisingIds(tmp_path / "last_id", now_ms=lambda: 5_000).next()
    later = RisingIds(tmp_path / "last_id", now_ms=lambda: 4_000).next()
    assert later > earlier


@pytest.mark.parametrize("left", [b"", b"\0" * 20], ids=["nothing", "zeros"])
def test_a_note_that_a_power_cut_spoiled_does_not_stop_landing(tmp_path: Path, left: bytes) -> None:
    spoiled = tmp_path / "last_id"
    spoiled.write_bytes(left)
    made = [RisingIds(spoiled, now_ms=lambda: 2_000).next() for _ in range(2)]
    assert [UUID(one).int >> 80 for one in made] == [2_000, 2_001]


def test_ids_rise_without_a_note_too() -> None:
    ids = RisingIds()
    made = [ids.next() for _ in range(3000)]
    assert made == sorted(set(made))
