from pathlib import Path
from uuid import UUID

import pytest

from ilyama_protocol.identifiers import is_uuid7
from ilyama_resources.mqtt.errors import LandingBusy
from ilyama_resources.mqtt.holding import RisingIds, SubscriptionNote, sole_holder


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


def test_a_note_is_about_one_session(tmp_path: Path) -> None:
    note = SubscriptionNote(tmp_path / "note", session="ilyama at broker:1883")
    assert note.read() == []
    note.write(["+/a", "b/ü"])
    assert note.read() == ["+/a", "b/ü"]
    assert SubscriptionNote(tmp_path / "note", session="another").read() == []


@pytest.mark.parametrize("left", [b"", b"\0" * 20], ids=["nothing", "zeros"])
def test_notes_that_a_power_cut_spoiled_do_not_stop_landing(tmp_path: Path, left: bytes) -> None:
    spoiled = tmp_path / "note"
    spoiled.write_bytes(left)
    assert SubscriptionNote(spoiled, session="ilyama at broker:1883").read() == []
    made = [RisingIds(spoiled, now_ms=lambda: 2_000).next() for _ in range(2)]
    assert [UUID(one).int >> 80 for one in made] == [2_000, 2_001]


def test_there_is_one_holder_at_a_time(tmp_path: Path) -> None:
    lock = tmp_path / "landing" / "subscriber.lock"
    with sole_holder(lock), pytest.raises(LandingBusy, match=str(lock)):
        sole_holder(lock).__enter__()
    with sole_holder(lock):
        pass
