"""The `ilyama check` command."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from ilyama_protocol.testing.vectors import file_of
from ilyama_protocol.topics import MessageKind, kind_of
from ilyama_service.cli.check.command import check
from tests.unit.protocol.payloads import change, document, encoded

GOOD = encoded(document(MessageKind.ROWS))
BAD = encoded(document(MessageKind.ROWS, rows=[change(101), change(103, pk={})]))
ACK = encoded(document(MessageKind.ACK))


def run(*arguments: str | Path, stdin: bytes = b"") -> Result:
    app = typer.Typer()
    app.command()(check)
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)


def answers(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.split("\n") if line]


def submission(id_: str, payload: bytes, **members: Any) -> bytes:
    line = {
        "id": id_,
        "topic": "sync/rows/batch",
        "payload_b64": base64.b64encode(payload).decode(),
    }
    return encoded({**line, **members}) + b"\n"


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.json"
    path.write_bytes(GOOD)
    return path


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "bad.json"
    path.write_bytes(BAD)
    return path


def test_a_sound_payload_is_accepted(good: Path) -> None:
    result = run(good)

    assert result.exit_code == 0
    assert result.stdout == f"{good} on sync/rows/batch: accepted\n"


def test_a_faulty_payload_is_explained(good: Path, bad: Path) -> None:
    result = run(good, bad)

    assert result.exit_code == 1
    assert result.stdout.endswith(
        f"{bad} on sync/rows/batch: invalid_row at $.rows[1].pk\n"
        "    rows[1].pk is empty; send the primary key as an object of scalars\n"
        "    action: fix\n"
    )


def test_answers_can_be_json(good: Path, bad: Path) -> None:
    result = run("--json", good, bad)

    assert result.exit_code == 1
    assert answers(result) == [
        {
            "file": str(good),
            "topic": "sync/rows/batch",
            "accepted": True,
            "code": None,
            "json_path": None,
            "message": None,
            "action": None,
        },
        {
            "file": str(bad),
            "topic": "sync/rows/batch",
            "accepted": False,
            "code": "invalid_row",
            "json_path": "$.rows[1].pk",
            "message": "rows[1].pk is empty; send the primary key as an object of scalars",
            "action": "fix",
        },
    ]


@pytest.mark.parametrize("topic", ["sync/ingest/ack", "acme/dev-1/sync/ingest/ack"])
def test_a_topic_is_relative_or_whole(topic: str) -> None:
    assert run("--topic", topic, "-", stdin=ACK).exit_code == 0


def test_an_unknown_topic_is_a_rejection(good: Path) -> None:
    topic = "acme/dev-1/sync/rows/batch/"
    of_a_file = run("--json", "--topic", topic, good)
    in_order = run("--json", "--in-order", "--topic", topic, good)
    of_a_line = run("--jsonl", "-", stdin=submission("a", GOOD, topic=topic))

    for result in (of_a_file, in_order, of_a_line):
        (answer,) = answers(result)
        assert (result.exit_code, answer["code"], answer["json_path"]) == (1, "unknown_topic", "$")
        assert "leave the slash out" in answer["message"]


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ("acme/dev-1/sync/rows/batch", None),
        ("/dev-1/sync/rows/batch", None),
        ("acme/dev-1/sync/ingest/ack", "invalid_envelope"),
        ("devices/dev-1/sync/rows/batch", "unknown_topic"),
        ("cdc/dev-1/sync/rows/batch", "unknown_topic"),
        ("acme/dev-1/sync/ingest/control", "unknown_topic"),
    ],
)
def test_a_full_topic_is_as_good_as_the_part_after_its_root(
    good: Path, topic: str, code: str | None
) -> None:
    asked_of_a_file = run("--topic", topic, "--json", good)
    asked_of_a_line = run("--jsonl", "-", stdin=submission("a", GOOD, topic=topic))

    assert answers(asked_of_a_file)[0]["code"] == answers(asked_of_a_line)[0]["code"] == code


@pytest.mark.parametrize("order", [[], ["--in-order"]], ids=str)
def test_messages_of_device_management_are_kept_and_not_judged(
    good: Path, order: list[str]
) -> None:
    topic = "devices/dev-1/telemetry"
    line = run("--jsonl", *order, "-", stdin=submission("a", b"{", topic=topic))
    file = run("--topic", topic, "--json", *order, good)
    told = run("--topic", topic, *order, good)

    assert [answers(each)[0]["outcome"] for each in (line, file)] == ["kept", "kept"]
    assert [each.exit_code for each in (line, file, told)] == [0, 0, 0]
    assert told.stdout.startswith(f"{good}: kept")


LIMITS = [
    ("ILYAMA_BATCH_MAX_ROWS", "batch_too_many_rows"),
    ("ILYAMA_PAYLOAD_MAX_BYTES", "payload_too_large"),
]


@pytest.mark.parametrize("order", [[], ["--in-order"]], ids=str)
@pytest.mark.parametrize(("variable", "code"), LIMITS, ids=str)
def test_the_limits_are_those_of_the_deployment(
    variable: str, code: str, order: list[str], good: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "1")
    of_a_file = run("--json", *order, good)
    of_a_line = run("--jsonl", *order, "-", stdin=submission("a", GOOD))

    assert [answers(each)[0]["code"] for each in (of_a_file, of_a_line)] == [code, code]


@pytest.mark.parametrize("order", [[], ["--in-order"]], ids=str)
@pytest.mark.parametrize("beside", [["--json"], ["--topic", "sync/rows/batch"]], ids=str)
def test_what_lines_do_not_heed_is_refused(beside: list[str], order: list[str]) -> None:
    result = run("--jsonl", *order, *beside, "-", stdin=submission("a", GOOD))

    assert (result.exit_code, result.stdout) == (2, "")
    assert f"leave out {beside[0]}." in result.stderr


@pytest.mark.parametrize("option", ["--json", "--jsonl"])
def test_a_missing_file_is_one_sentence(option: str, tmp_path: Path) -> None:
    result = run(option, tmp_path / "none.json")

    assert result.exit_code == 2
    assert result.stderr == f"cannot read {tmp_path / 'none.json'}: No such file or directory\n"


def test_a_directory_is_one_sentence(tmp_path: Path) -> None:
    result = run(tmp_path)

    assert result.exit_code == 2
    assert result.stderr == f"cannot read {tmp_path}: Is a directory\n"


def test_no_file_is_a_usage_error() -> None:
    assert run().exit_code == 2


def test_every_line_of_the_vectors_is_answered_in_order() -> None:
    vectors = file_of("validation").read_bytes()

    result = run("--jsonl", "-", stdin=vectors)

    assert result.exit_code == 1
    assert [(answer["id"], answer["code"]) for answer in answers(result)] == [
        (vector["id"], vector["code"]) for vector in map(json.loads, vectors.splitlines())
    ]


def test_lines_come_from_standard_input_too() -> None:
    lines = submission("a", GOOD) + submission("b", BAD) + submission("c", GOOD, registered=False)

    result = run("--jsonl", "-", stdin=lines)

    assert answers(result) == [
        {"id": "a", "accepted": True, "code": None, "json_path": None},
        {
            "id": "b",
            "accepted": False,
            "code": "invalid_row",
            "json_path": "$.rows[1].pk",
            "message": "rows[1].pk is empty; send the primary key as an object of scalars",
            "action": "fix",
        },
        {
            "id": "c",
            "accepted": False,
            "code": "unregistered_device",
            "json_path": "$",
            "message": "no device is registered under this topic; register it, then send again",
            "action": "fix",
        },
    ]


@pytest.mark.parametrize("order", [[], ["--in-order"]], ids=str)
@pytest.mark.parametrize("lines", [1, 2_001])
def test_lines_can_be_answered_as_to_a_stranger(lines: int, order: list[str]) -> None:
    result = run("--jsonl", "--unregistered", *order, "-", stdin=submission("a", GOOD) * lines)

    assert result.exit_code == 1
    assert [answer["code"] for answer in answers(result)] == ["unregistered_device"] * lines


def test_accepted_lines_alone_are_a_success() -> None:
    assert run("--jsonl", "-", stdin=submission("a", GOOD)).exit_code == 0


def test_an_empty_line_says_nothing() -> None:
    result = run("--jsonl", "-", stdin=b"\n" + submission("a", GOOD) + b" \n\n")

    assert (result.exit_code, result.stderr) == (0, "")
    assert [answer["id"] for answer in answers(result)] == ["a"]


@pytest.mark.parametrize(
    "line",
    [
        b"nonsense\n",
        b"[]\n",
        b'{"id":"x"}\n',
        b'{"id":"x","topic":"sync/rows/batch","payload_b64":"%%%"}\n',
        b'{"id":"x","topic":1,"payload_b64":""}\n',
        b'{"id":"\xff","topic":"sync/rows/batch","payload_b64":""}\n',
    ],
)
@pytest.mark.parametrize("order", [[], ["--in-order"]], ids=str)
def test_a_line_that_is_no_submission_is_named_and_the_rest_goes_on(
    line: bytes, order: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "capture.jsonl"
    file.write_bytes(submission("a", GOOD) + line + submission("c", BAD))
    result = run("--jsonl", *order, file)

    assert result.exit_code == 2
    assert [answer["id"] for answer in answers(result)] == ["a", "c"]
    assert result.stderr.startswith(f"line 2 of {file} is not a submission: ")


def test_thousands_of_lines_are_answered_in_their_order() -> None:
    lines = [submission(str(n), BAD if n % 7 == 0 else GOOD) for n in range(5000)]
    lines[4321] = b"nonsense\n"

    result = run("--jsonl", "-", stdin=b"".join(lines))

    assert result.exit_code == 2
    assert [(answer["id"], answer["accepted"]) for answer in answers(result)] == [
        (str(n), n % 7 != 0) for n in range(5000) if n != 4321
    ]
    assert result.stderr.startswith("line 4322 of standard input is not a submission: ")


@pytest.mark.parametrize("kind", [*MessageKind][:-1])
def test_a_payload_is_judged_by_the_topic_that_its_members_tell(
    kind: MessageKind, tmp_path: Path
) -> None:
    file = tmp_path / "message.json"
    file.write_bytes(encoded(document(kind)))

    (answer,) = answers(run("--json", file))

    assert (answer["accepted"], kind_of(answer["topic"])) == (True, kind)


def test_a_payload_that_tells_no_topic_is_judged_as_rows() -> None:
    (answer,) = answers(run("--json", "-", stdin=b"{}"))

    assert (answer["topic"], answer["code"]) == ("sync/rows/batch", "invalid_format_version")


def test_every_check_of_the_rule_table_can_be_failed_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "message.json"
    for vector in map(json.loads, file_of("validation").read_bytes().splitlines()):
        file.write_bytes(base64.b64decode(vector["payload_b64"]))
        options = [] if vector["registered"] else ["--unregistered"]
        (answer,) = answers(run("--json", *options, "--topic", vector["topic"], file))

        assert answer["code"] == vector["code"], vector["id"]


def test_files_in_order_are_answered_with_their_history(good: Path, bad: Path) -> None:
    result = run("--in-order", good, good, bad)

    assert result.exit_code == 1
    assert result.stdout == (
        f"{good}: accepted, 2 rows: 2 new\n"
        f"{good}: duplicate, 2 rows: 2 duplicate\n"
        f"{bad}: rejected, invalid_row at $.rows[1].pk\n"
        "    rows[1].pk is empty; send the primary key as an object of scalars\n"
        "    action: fix\n"
    )


def test_a_retry_in_order_is_a_success_and_a_conflict_is_not(good: Path) -> None:
    clone = encoded(document(MessageKind.ROWS, rows=[change(101, row={}), change(103)]))

    assert run("--in-order", good, good).exit_code == 0
    result = run("--in-order", "--json", good, "-", stdin=clone)

    assert result.exit_code == 1
    first, second = answers(result)
    assert (first["file"], first["outcome"], first["rows_new"]) == (str(good), "accepted", 2)
    assert (second["outcome"], second["rows_conflict"]) == ("duplicate", 2)


def test_lines_in_order_are_answered_with_their_history() -> None:
    other = {"topic": "acme/dev-2/sync/rows/batch"}
    lines = [submission("a", GOOD), submission("b", GOOD), submission("c", GOOD, **other)]

    result = run("--in-order", "--jsonl", "-", stdin=b"".join([*lines, b"x\n", b"\n"]))

    assert result.exit_code == 2
    told = [(answer["id"], answer["outcome"]) for answer in answers(result)]
    assert told == [("a", "accepted"), ("b", "duplicate"), ("c", "accepted")]
    assert result.stderr.startswith("line 4 of standard input is not a submission: ")
