"""`ilyama rejections` at a terminal: clear lines, and sentences for what makes no sense."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from ilyama_resources.postgres.rejections import Rejection, RejectionGroup, RejectionState
from ilyama_service.cli.app import app
from ilyama_service.cli.rejection_lists import show_each, show_groups

NINE = datetime(2026, 4, 28, 9, tzinfo=UTC)
GROUP = RejectionGroup(
    code="invalid_row",
    source_table="[red]pumps",
    firmware_version="2.1\x1b[2J",
    rejections=1200,
    devices=3,
    first_received_at=NINE - timedelta(hours=25),
    last_received_at=NINE,
    states={"rejected": 1199, "accepted": 1},
    sample_id="0193a0e0-0000-8000-8000-000000000001",
    sample_path="$.rows[3].pk",
    sample_message="`pk` is empty.",
)
REJECTION = Rejection(
    rejection_id=GROUP.sample_id,
    code="invalid_row",
    json_path="$.x",
    message="",
    action="fix",
    source_table="pumps",
    device_id="acme/dev-7",
    firmware_version="2.1",
    topic="acme/dev-7/sync/rows/batch",
    segment_id="s",
    position=3,
    received_at=NINE,
    drain_id=7,
    day=NINE.date(),
    payload_bytes=9,
    first_code="invalid_row",
    state=RejectionState.REJECTED,
    note=None,
    replays=0,
    last_outcome=None,
    last_drain_id=None,
    changed_at=NINE,
)


def test_a_group_is_one_line_with_its_newest_below(capsys: pytest.CaptureFixture[str]) -> None:
    show_groups([GROUP])

    head, line, came, newest = capsys.readouterr().out.splitlines()

    assert head.split() == ["code", "table", "firmware", "count", "open", "devices"]
    assert line.split()[:2] == ["invalid_row", "[red]pumps"]
    assert line.split()[-3:] == ["1,200", "1,199", "3"]
    assert len(line) <= 80
    assert came == f"  2026-04-27 08:00 to 2026-04-28 09:00  {GROUP.sample_id}"
    assert newest == "  `pk` is empty. ($.rows[3].pk)"


@pytest.mark.parametrize("columns", ["80", "20"])
def test_no_word_that_is_copied_is_broken_or_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    code, table, sentence = "envelope_unstripped_tenant_fields", "t" * 60, "It has one. " * 20
    show_groups([GROUP._replace(code=code, source_table=table, sample_message=sentence)])
    show_each([REJECTION._replace(code=code, source_table=table, message=sentence)])

    _, line, _, newest, name, place, told = capsys.readouterr().out.splitlines()

    assert line.split()[:2] == [code, table]
    assert newest == told.replace("$.x", "$.rows[3].pk") == f"  {sentence} ($.rows[3].pk)"
    assert name == f"{GROUP.sample_id}  2026-04-28 09:00:00  rejected"
    assert place == f"  {code}  acme/dev-7  {table}  2.1"


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
        pytest.param(["explain", str(uuid4())], "Say once why", id="no-note"),
        pytest.param(["explain", str(uuid4()), "a", "--note", "b"], "Say once", id="two-notes"),
        pytest.param(["explain", "--code", "a"], "Say once why", id="no-note-of-a-group"),
        pytest.param(["explain", "--table", "a"], "or --code for a group", id="no-code"),
        pytest.param(["discard", str(uuid4()), "--device", "a"], "not both", id="both-discarded"),
        pytest.param(["replay", str(uuid4()), "--table", ""], "not both", id="empty-table"),
        pytest.param(["discard", str(uuid4()), "--code", ""], "not both", id="empty-code"),
        pytest.param(["explain", str(uuid4()), ""], "it is not empty", id="empty-note"),
    ],
)
def test_wrong_arguments_get_a_sentence(words: list[str], sentence: str) -> None:
    answer = CliRunner().invoke(app, ["rejections", *words], env={"COLUMNS": "200"})

    assert answer.exit_code == 2
    assert sentence in answer.output
