"""Days in which nothing lies any more go; who lands in one at that moment does not notice."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ilyama_protocol.intake.outcomes import Message
from ilyama_protocol.moments import micros
from ilyama_resources.durability import make_directory
from ilyama_resources.landing import segment_files
from ilyama_resources.landing.directory import Landing
from ilyama_resources.landing.segment_files import read_messages
from ilyama_resources.landing.segment_ids import RisingIds

LANDED_AT = datetime(2026, 4, 28, 9, tzinfo=UTC)
MESSAGE = Message("", 0, "acme/dev-1/sync/rows/batch", b"{}", micros(LANDED_AT))
LONG_AGO = datetime.now(UTC) - timedelta(days=3)
A_DAY_AGO = datetime.now(UTC) - timedelta(days=1)


def aged(directory: Path) -> Path:
    """A directory that nobody has touched for days."""
    directory.mkdir(parents=True, exist_ok=True)
    os.utime(directory, (LONG_AGO.timestamp(),) * 2)
    return directory


def test_an_empty_day_goes_when_it_is_old(tmp_path: Path) -> None:
    landing, segments = Landing(tmp_path), tmp_path / "segments"
    written = landing.write(RisingIds().next(), [MESSAGE])
    full, old = aged(segments / str(written.day)), aged(segments / "2026-04-27")
    fresh = segments / "2026-04-29"
    fresh.mkdir()

    landing.sweep(put_away_before=A_DAY_AGO)

    assert sorted(segments.iterdir()) == [full, fresh]
    assert not old.exists()
    assert landing.find(written.segment_id, written.day) is not None


def test_a_draft_of_long_ago_goes_and_its_day_with_the_next_sweep(tmp_path: Path) -> None:
    day = aged(tmp_path / "segments" / "2026-04-27")
    draft = day / f"half{segment_files.DRAFT}"
    draft.write_bytes(b"PAR1")
    os.utime(draft, (LONG_AGO.timestamp(),) * 2)

    Landing(tmp_path).sweep(put_away_before=A_DAY_AGO)
    assert not draft.exists()
    aged(day)
    Landing(tmp_path).sweep(put_away_before=A_DAY_AGO)
    assert not day.exists()


def test_a_segment_lands_although_its_day_was_swept_just_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    landing = Landing(tmp_path)
    swept: list[Path] = []

    def make_and_sweep(day: Path) -> None:
        make_directory(day)
        if not swept:
            swept.append(aged(day))
            landing.sweep(put_away_before=A_DAY_AGO)

    monkeypatch.setattr(segment_files, "make_directory", make_and_sweep)
    written = landing.write(RisingIds().next(), [MESSAGE])

    assert swept
    found = landing.find(written.segment_id, written.day)
    assert found is not None
    assert [message.payload for message in read_messages(found)] == [b"{}"]
