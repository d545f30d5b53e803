"""`ilyama rejections` at a terminal: clear lines, and sentences for what makes no sense."""

from datetime import UTC, datetime
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from ilyama_resources.postgres.rejections import RejectionGroup
from ilyama_service.cli.app import app
from ilyama_service.cli.rejecting import show_groups

NINE = datetime(2026, 4, 28, 9, tzinfo=UTC)
GROUP = RejectionGroup(
    code="invalid_row",
    source_table="[red]pumps",
    firmware_version="2.1\x1b[2J",
    rejections=1200,
    devices=3,
    first_received_at=NINE,
    last_received_at=NINE,
    states={"rejected": 1199, "accepted": 1},
    sample_id="0193a0e0-0000-8000-8000-000000000001",
    sample_path="$.rows[3].pk",
    sample_message="`pk` is empty.",
)


def test_a_group_is_one_line_with_its_newest_below(capsys: pytest.CaptureFixture[str]) -> None:
    show_groups([GROUP])

    head, line, newest = capsys.readouterr().out.splitlines()

    assert head.split() == ["code", "table", "firmware", "count", "open", "devices", "last"]
    assert line.split()[:2] == ["invalid_row", "[red]pumps"]
    assert line.split()[-5:] == ["1,200", "1,199", "3", "2026-04-28", "09:00"]
    assert len(line) <= 80
    assert newest == f"{GROUP.sample_id}  `pk` is empty. ($.rows[3].pk)"


def test_a_terminal_obeys_no_word_of_a_device(capsys: pytest.CaptureFixture[str]) -> None:
    show_groups([GROUP])

    told = capsys.readouterr().out

    assert "\x1b[2J" not in told
    assert r"\x1b[2J" in told


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        pytest.param(["replay"], "Give the ID of a rejection, or --code", id="nothing"),
        pytest.param(["replay", "x"], "should be a valid UUID", id="no-id"),
        pytest.param(["replay", str(uuid4()), "--code", "a"], "not both", id="both"),
        pytest.param(["replay", "--code", "a", "--with", __file__], "for one rejection", id="with"),
        pytest.param(["list", "--state", "gone"], "There is no state gone", id="state"),
        pytest.param(["explain", str(uuid4())], "Missing argument", id="no-note"),
        pytest.param(["explain", str(uuid4()), ""], "it is not empty", id="empty-note"),
    ],
)
def test_wrong_arguments_get_a_sentence(words: list[str], sentence: str) -> None:
    answer = CliRunner().invoke(app, ["rejections", *words], env={"COLUMNS": "200"})

    assert answer.exit_code == 2
    assert sentence in answer.output
