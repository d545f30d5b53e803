"""What `ilyama check` reads: files, standard input, and lines that are submissions."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, NoReturn

import msgspec
import typer

REJECTED: Final = 1
_UNUSABLE: Final = 2
_STANDARD_INPUT: Final = Path("-")


class Submission(msgspec.Struct):
    """A line of `--jsonl`: a payload and its topic, a full one or the part after its root."""

    id: str | int
    topic: str
    payload_b64: bytes
    registered: bool = True


class NoSubmission(ValueError):
    """A line is not a submission."""


_SUBMISSION: Final = msgspec.json.Decoder(Submission)


def submission_of(number: int, line: bytes, *, registered: bool) -> Submission:
    """Read one line; `registered` False says of every line that its device is not.

    Raises:
        NoSubmission: it is something else.
    """
    try:
        submission = _SUBMISSION.decode(line)
        submission.registered = submission.registered and registered
        return submission
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NoSubmission(f"line {number} is not a submission: {error}") from error


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
    raise typer.Exit(_UNUSABLE)
