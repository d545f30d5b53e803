"""`ilyama drains` on a terminal of ordinary width."""

from datetime import UTC, date, datetime
from typing import Any

import pytest

from ilyama_resources.postgres.drains import Drain, DrainState
from ilyama_service.cli.drains import show

NOTE = "messages are unaccounted for: " + "segment 1 position 2, " * 10


def _drain(**changes: Any) -> Drain:
    return Drain(
        drain_id=12_345,
        day=date(2026, 4, 28),
        origin="live",
        state=DrainState.DONE,
        attempts=1,
        segments=64,
        messages=123_456,
        bytes=67_108_864,
        note=None,
        opened_at=datetime(2026, 4, 28, 9, tzinfo=UTC),
        sealed_at=None,
        closed_at=datetime(2026, 4, 28, 10, 11, 12, tzinfo=UTC),
    )._replace(**changes)


def test_every_drain_is_one_line_of_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    show([_drain(), _drain(drain_id=12_344)], [])

    lines = capsys.readouterr().out.splitlines()

    assert len(lines) == 3
    assert lines[1].split() == [
        *("12345", "2026-04-28", "done", "live", "123,456"),
        *("67,108,864", "1", "2026-04-28", "10:11"),
    ]
    assert max(map(len, lines)) <= 80


def test_a_note_stands_below_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    show([_drain(state=DrainState.HELD, note=f"{NOTE}[bold]")], [])

    assert capsys.readouterr().out.splitlines()[-1] == f"drain 12345: {NOTE}[bold]"
