"""`ilyama check --jsonl`: a verdict per line, on all cores."""

import os
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import typer

from ilyama_protocol.rejections import Rejection
from ilyama_protocol.topics import MessageKind, kind_on
from ilyama_protocol.validation import validate
from ilyama_service.cli.check_inputs import NoSubmission, Submission, opened, submission_of

_PORTION_LINES: Final = 1000
_PORTIONS_PER_CORE: Final = 8


class LineVerdict(msgspec.Struct):
    """The answer to a submission."""

    id: str | int
    accepted: bool
    code: str | None
    json_path: str | None


Portion = list[tuple[int, bytes]]
"""Lines of a file with their numbers."""


class Answered(NamedTuple):
    """The answers to a portion, as they are printed."""

    lines: bytes
    complaints: list[str]
    all_accepted: bool


_ENCODER = msgspec.json.Encoder()


def answer_lines(files: Sequence[Path], *, registered: bool) -> bool:
    """Print a verdict on every line; tell whether all were accepted."""
    return all([_answer_file(file, registered=registered) for file in files])


def _answer_file(file: Path, *, registered: bool) -> bool:
    all_accepted = True
    with opened(file) as lines:
        for answered in _answered_in_order(_portions(lines), registered=registered):
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


def _answered_in_order(portions: Iterator[Portion], *, registered: bool) -> Iterator[Answered]:
    """Answer portions on all cores; one alone is not worth another process."""
    answer = partial(_answered, registered=registered)
    first = list(islice(portions, 2))
    if len(first) < 2:
        yield from map(answer, first)
        return
    cores = len(os.sched_getaffinity(0))
    waiting = chain(first, portions)
    # Ctrl-C is for the process that was started, not for these.
    deaf = (signal.SIGINT, signal.SIG_IGN)
    with get_context("fork").Pool(cores, signal.signal, deaf) as pool:
        while at_once := list(islice(waiting, cores * _PORTIONS_PER_CORE)):
            yield from pool.map(answer, at_once, chunksize=1)


def _answered(portion: Portion, *, registered: bool) -> Answered:
    answers: list[LineVerdict] = []
    complaints: list[str] = []
    for number, line in portion:
        if not line.strip():
            continue
        try:
            answers.append(_verdict(submission_of(number, line, registered=registered)))
        except NoSubmission as error:
            complaints.append(str(error))
    all_accepted = not complaints and all(answer.accepted for answer in answers)
    return Answered(_ENCODER.encode_lines(answers), complaints, all_accepted)


def _verdict(submission: Submission) -> LineVerdict:
    kind = kind_on(submission.topic)
    if kind is MessageKind.DEVICE:
        # Of those nothing is judged yet: the platform keeps them.
        return LineVerdict(submission.id, True, None, None)
    verdict = validate(kind, submission.payload_b64, registered=submission.registered)
    if isinstance(verdict, Rejection):
        return LineVerdict(submission.id, False, verdict.code, verdict.json_path)
    return LineVerdict(submission.id, True, None, None)
