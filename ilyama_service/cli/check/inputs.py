"""What `ilyama check` reads, by which rules it judges, and how it ends."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, NoReturn

import msgspec
import typer

from ilyama_protocol.limits import Limits

_STANDARD_INPUT: Final = Path("-")


class Ending(IntEnum):
    """How the command ends; of several the highest counts."""

    ACCEPTED = 0
    REJECTED = 1
    UNUSABLE = 2


class Rules(NamedTuple):
    """What payloads are judged by: the limits of the deployment, and whether devices are known."""

    limits: Limits
    registered: bool


class Submission(msgspec.Struct):
    """A line of `--jsonl`: a payload and its topic, a full one or the part after its root."""

    id: str | int
    topic: str
    payload_b64: bytes
    registered: bool = True


class NoSubmission(ValueError):
    """A line is not a submission."""


_SUBMISSION: Final = msgspec.json.Decoder(Submission)


def submission_of(number: int, line: bytes, *, file: Path, registered: bool) -> Submission:
    """Read one line of a file; `registered` False says of every line that its device is not.

    Raises:
        NoSubmission: it is something else.
    """
    try:
        submission = _SUBMISSION.decode(line)
        submission.registered = submission.registered and registered
        return submission
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        place = f"line {number} of {name_of(file)}"
        raise NoSubmission(f"{place} is not a submission: {error}") from error


def name_of(file: Path) -> str:
    """A file as a person is told of it."""
    return "standard input" if file == _STANDARD_INPUT else str(file)


def worst(endings: Iterable[Ending]) -> Ending:
    """How everything ends, every part of which was looked at."""
    return max(endings, default=Ending.ACCEPTED)


def read_payload(file: Path) -> bytes:
    """The bytes of a file."""
    with opened(file) as stream:
        return stream.read()


@contextmanager
def opened(file: Path) -> Iterator[BinaryIO]:
    """A file, or standard input; one that cannot be read ends the command with a sentence."""
    if file == _STANDARD_INPUT:
        yield sys.stdin.buffer
        return
    try:
        stream = file.open("rb")
    except OSError as error:
        refuse(f"cannot read {file}: {error.strerror}")
    with stream:
        yield stream


def refuse(sentence: str) -> NoReturn:
    """End the command: it cannot be used that way."""
    typer.echo(sentence, err=True)
    raise typer.Exit(Ending.UNUSABLE)
