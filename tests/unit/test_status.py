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
