"""`ilyama check`: ask the validator about payloads before a device sends them."""

import os
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, BinaryIO, Final, NamedTuple, NoReturn

import msgspec
import typer

from ilyama_protocol.rejections import Rejection
from ilyama_protocol.topics import MessageKind, kind_of, parse_topic
from ilyama_protocol.validation import validate

STANDARD_INPUT = Path("-")
_REJECTED = 1
_UNUSABLE = 2
_PORTION_LINES: Final = 1000
_PORTIONS_PER_CORE: Final = 8


class Submission(msgspec.Struct):
    """A line of `--jsonl`: a payload and its topic, a full one or the part after its root."""

    id: str | int
    topic: str
    payload_b64: bytes
    registered: bool = True


class Answer(msgspec.Struct):
    """The answer to a submission."""

    id: str | int
    accepted: bool
    code: str | None
    json_path: str | None


class Report(msgspec.Struct):
    """The answer about a file."""

    file: str
    accepted: bool
    code: str | None = None
    json_path: str | None = None
    message: str | None = None
    action: str | None = None


Portion = list[tuple[int, bytes]]
"""Lines of a file with their numbers."""


class Answered(NamedTuple):
    """The answers to a portion, as they are printed."""

    lines: bytes
    complaints: list[str]
    all_accepted: bool


_SUBMISSION = msgspec.json.Decoder(Submission)
_ENCODER = msgspec.json.Encoder()


def check(
    files: Annotated[list[Path], typer.Argument(help="Payload files; - is standard input.")],
    topic: Annotated[
        str, typer.Option(help="The topic they are for: a full one, or the part after its root.")
    ] = "sync/rows/batch",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per file.")
    ] = False,
    jsonl: Annotated[
        bool,
        typer.Option(
            "--jsonl", help='Take files of lines {"id", "topic", "payload_b64"}; answer each line.'
        ),
    ] = False,
) -> None:
    """Validate payloads exactly as the platform does when a device sends them."""
    if jsonl:
        all_accepted = all([_answer_lines(file) for file in files])
    else:
        kind = _judged_kind(topic)
        all_accepted = all([_report(file, kind, as_json=as_json) for file in files])
    if not all_accepted:
        raise typer.Exit(_REJECTED)


def _answer_lines(file: Path) -> bool:
    all_accepted = True
    with _opened(file) as lines:
        for answered in _answered_in_order(_portions(lines)):
            all_accepted = all_accepted and answered.all_accepted
            sys.stdout.buffer.write(answered.lines)
            for complaint in answered.complaints:
                typer.echo(complaint, err=True)
    sys.stdout.buffer.flush()
    return all_accepted


def _portions(lines: Iterable[bytes]) -> Iterator[Portion]:
    numbered = enumerate(lines, start=1)
    while portion := list(islice(numbered, _PORTION_LINES)):
        yield portion


def _answered_in_order(portions: Iterator[Portion]) -> Iterator[Answered]:
    """Answer portions on all cores; one alone is not worth another process."""
    first = list(islice(portions, 2))
    if len(first) < 2:
        yield from map(_answered, first)
        return
    cores = len(os.sched_getaffinity(0))
    waiting = chain(first, portions)
    # Ctrl-C is for the process that was started, not for these.
    deaf = (signal.SIGINT, signal.SIG_IGN)
    with get_context("fork").Pool(cores, signal.signal, deaf) as pool:
        while at_once := list(islice(waiting, cores * _PORTIONS_PER_CORE)):
            yield from pool.map(_answered, at_once, chunksize=1)


def _answered(portion: Portion) -> Answered:
    answers: list[Answer] = []
    complaints: list[str] = []
    for number, line in portion:
        if not line.strip():
            continue
        try:
            answers.append(_answer(_SUBMISSION.decode(line)))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            complaints.append(f"line {number} is not a submission: {error}")
    all_accepted = not complaints and all(answer.accepted for answer in answers)
    return Answered(_ENCODER.encode_lines(answers), complaints, all_accepted)


def _answer(submission: Submission) -> Answer:
    kind = _kind_of_topic(submission.topic)
    if kind is MessageKind.DEVICE:
        # Of those nothing is judged yet: the platform keeps them.
        return Answer(submission.id, True, None, None)
    verdict = validate(kind, submission.payload_b64, registered=submission.registered)
    if isinstance(verdict, Rejection):
        return Answer(submission.id, False, verdict.code, verdict.json_path)
    return Answer(submission.id, True, None, None)


def _report(file: Path, kind: MessageKind | None, *, as_json: bool) -> bool:
    with _opened(file) as stream:
        verdict = validate(kind, stream.read())
    report = Report(str(file), accepted=not isinstance(verdict, Rejection))
    if isinstance(verdict, Rejection):
        report.code, report.json_path = verdict.code, verdict.json_path
        report.message, report.action = verdict.message, verdict.action
    if as_json:
        typer.echo(_ENCODER.encode(report))
    else:
        _show(report)
    return report.accepted


def _show(report: Report) -> None:
    if report.accepted:
        typer.secho(f"{report.file}: accepted", fg="green")
        return
    typer.secho(f"{report.file}: {report.code} at {report.json_path}", fg="red")
    typer.echo(f"    {report.message}")
    typer.echo(f"    action: {report.action}")


def _kind_of_topic(topic: str) -> MessageKind | None:
    return kind_of(topic) or parse_topic(topic).kind


def _judged_kind(topic: str) -> MessageKind | None:
    kind = _kind_of_topic(topic)
    if kind is MessageKind.DEVICE:
        _refuse("check knows the messages below sync/ only, not those below devices/")
    return kind


@contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    if file == STANDARD_INPUT:
        yield sys.stdin.buffer
        return
    try:
        stream = file.open("rb")
    except OSError as error:
        _refuse(f"cannot read {file}: {error.strerror}")
    with stream:
        yield stream


def _refuse(sentence: str) -> NoReturn:
    typer.echo(sentence, err=True)
    raise typer.Exit(_UNUSABLE)
