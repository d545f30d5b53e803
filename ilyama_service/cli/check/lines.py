"""`ilyama check --jsonl`: a verdict per line, on all cores."""

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import typer
from msgspec import UNSET, UnsetType

from ilyama_protocol.intake.outcomes import Outcome
from ilyama_protocol.limits import Limits
from ilyama_protocol.rejections import Rejection
from ilyama_protocol.topics import MessageKind, kind_on
from ilyama_protocol.validation import validate
from ilyama_service.cli.check.inputs import (
    Ending,
    NoSubmission,
    Rules,
    Submission,
    opened,
    submission_of,
    worst,
)

_PORTION_LINES: Final = 1000
_PORTIONS_PER_CORE: Final = 8


class LineVerdict(msgspec.Struct):
    """The answer to a submission; a rejection has a sentence and an action as well."""

    id: str | int
    accepted: bool
    code: str | None = None
    json_path: str | None = None
    message: str | UnsetType = UNSET
    action: str | UnsetType = UNSET
    outcome: str | UnsetType = UNSET


Portion = list[tuple[int, bytes]]
"""Lines of a file with their numbers."""


class Answered(NamedTuple):
    """The answers to a portion, as they are printed."""

    lines: bytes
    complaints: list[str]
    ending: Ending


_ENCODER = msgspec.json.Encoder()


def answer_lines(files: Sequence[Path], rules: Rules) -> Ending:
    """Print a verdict on every line; tell how it ends."""
    return worst([_answer_file(file, rules) for file in files])


def _answer_file(file: Path, rules: Rules) -> Ending:
    ending = Ending.ACCEPTED
    answer = partial(_answered, file=file, rules=rules)
    with opened(file) as lines:
        for answered in _answered_in_order(_portions(lines), answer):
            ending = max(ending, answered.ending)
            sys.stdout.buffer.write(answered.lines)
            for complaint in answered.complaints:
                typer.echo(complaint, err=True)
    sys.stdout.buffer.flush()
    return ending


def _portions(lines: Iterable[bytes]) -> Iterator[Portion]:
    numbered = enumerate(lines, start=1)
    while portion := list(islice(numbered, _PORTION_LINES)):
        yield portion


def _answered_in_order(
    portions: Iterator[Portion], answer: Callable[[Portion], Answered]
) -> Iterator[Answered]:
    """Answer portions on all cores; one alone is not worth another process."""
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


def _answered(portion: Portion, *, file: Path, rules: Rules) -> Answered:
    answers: list[LineVerdict] = []
    complaints: list[str] = []
    for number, line in portion:
        if not line.strip():
            continue
        try:
            asked = submission_of(number, line, file=file, registered=rules.registered)
            answers.append(_verdict(asked, rules.limits))
        except NoSubmission as error:
            complaints.append(str(error))
    is_sound = all(answer.accepted for answer in answers)
    ending = Ending.UNUSABLE if complaints else Ending.ACCEPTED if is_sound else Ending.REJECTED
    return Answered(_ENCODER.encode_lines(answers), complaints, ending)


def _verdict(submission: Submission, limits: Limits) -> LineVerdict:
    kind = kind_on(submission.topic)
    if kind is MessageKind.DEVICE:
        return LineVerdict(submission.id, accepted=True, outcome=Outcome.KEPT)
    verdict = validate(
        kind,
        submission.payload_b64,
        registered=submission.registered,
        limits=limits,
        topic=submission.topic,
    )
    if isinstance(verdict, Rejection):
        told = (verdict.code, verdict.json_path, verdict.message, verdict.action)
        return LineVerdict(submission.id, False, *told)
    return LineVerdict(submission.id, accepted=True)
