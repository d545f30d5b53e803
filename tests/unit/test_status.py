"""`ilyama status` shows words of devices and servers as they are."""

import pytest

from ilyama_service.cli.stack import show
from ilyama_service.stack.status import PartHealth, Status
from ilyama_service.stack.storms import BusiestDevice

MARKUP = "[/mill] [bold]"


def test_what_looks_like_markup_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    status = Status(
        running=True,
        parts=[PartHealth("api", False, f"answers {MARKUP}")],
        pending_segments=0,
        pending_messages=0,
        unfinished_drain=f"7 is held: {MARKUP}",
        rows_today=0,
        busiest_device=BusiestDevice(MARKUP, 9, 10),
    )

    show(status)

    assert capsys.readouterr().out.count(MARKUP) == 3


def test_missing_numbers_and_conflicts_are_told_and_those_of_journals_as_a_hint(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status = Status(running=True, parts=[], pending_segments=0, pending_messages=0, rows_today=0)
    show(status)
    assert "ilyama" not in capsys.readouterr().out

    status.telemetry_missing, status.journal_missing_hint, status.recent_key_conflicts = 1, 2000, 3
    show(status)

    told = capsys.readouterr().out
    assert "missing    1 telemetry batches: see `ilyama gaps`" in told
    assert "hint       2,000 or more numbers of journals never came: see `ilyama gaps`" in told
    assert "conflicts  3 in 7 days: see `ilyama conflicts`" in told


def test_files_of_conflicts_that_cannot_be_read_are_named_even_without_records(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show(Status(running=True, parts=[], unreadable_conflicts=[f"key_conflicts/{MARKUP}"]))

    assert f"unreadable key_conflicts/{MARKUP}: its key conflicts" in capsys.readouterr().out
