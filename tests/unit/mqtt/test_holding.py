from pathlib import Path

import pytest

from ilyama_resources.mqtt.errors import LandingBusy
from ilyama_resources.mqtt.holding import SubscriptionNote, sole_holder


def test_a_note_is_about_one_session(tmp_path: Path) -> None:
    note = SubscriptionNote(tmp_path / "note", session="ilyama at broker:1883")
    assert note.read() == []
    note.write(["+/a", "b/ü"])
    assert note.read() == ["+/a", "b/ü"]
    assert SubscriptionNote(tmp_path / "note", session="another").read() == []


@pytest.mark.parametrize("left", [b"", b"\0" * 20], ids=["nothing", "zeros"])
def test_a_note_that_a_power_cut_spoiled_does_not_stop_landing(tmp_path: Path, left: bytes) -> None:
    spoiled = tmp_path / "note"
    spoiled.write_bytes(left)
    assert SubscriptionNote(spoiled, session="ilyama at broker:1883").read() == []


def test_there_is_one_holder_at_a_time(tmp_path: Path) -> None:
    lock = tmp_path / "landing" / "subscriber.lock"
    with sole_holder(lock), pytest.raises(LandingBusy, match=str(lock)):
        sole_holder(lock).__enter__()
    with sole_holder(lock):
        pass
