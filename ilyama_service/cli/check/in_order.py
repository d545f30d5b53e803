"""`ilyama check --in-order`: what the platform answers to messages that follow one another.

The real intake engine takes them, so that retries, conflicts, late rows and sequence numbers are
answered as they are when a device sends these messages to a platform that knew nothing of it.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import typer

from ilyama_protocol.rehearsal import Answer, Rehearsal
from ilyama_service.cli.check.inputs import (
    Ending,
    NoSubmission,
    Rules,
    Submission,
    opened,
    submission_of,
    worst,
)


def answer_files_in_order(
    payloads: Iterable[tuple[str, str, bytes]], rules: Rules, *, as_json: bool
) -> Ending:
    """Answer (file, topic, payload) one after another; tell how it ends."""
    rehearsal = Rehearsal(limits=rules.limits)
    endings = []
    for file, topic, payload in payloads:
        answer = rehearsal.publish(topic, payload, registered=rules.registered)
        if as_json:
            _print({"file": file, "topic": topic}, answer)
        else:
            _show(file, answer)
        endings.append(_ending(answer))
    return worst(endings)


def answer_lines_in_order(files: Sequence[Path], rules: Rules) -> Ending:
    """Answer the submissions of all files one after another."""
    rehearsal = Rehearsal(limits=rules.limits)
    return worst([_answer_file(file, rehearsal, rules) for file in files])


def _answer_file(file: Path, rehearsal: Rehearsal, rules: Rules) -> Ending:
    ending = Ending.ACCEPTED
    with opened(file) as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                try:
                    asked = submission_of(number, line, file=file, registered=rules.registered)
                except NoSubmission as error:
                    typer.echo(str(error), err=True)
                    ending = Ending.UNUSABLE
                else:
                    ending = max(ending, _answer_line(asked, rehearsal))
    return ending


def _answer_line(asked: Submission, rehearsal: Rehearsal) -> Ending:
    answer = rehearsal.publish(asked.topic, asked.payload_b64, registered=asked.registered)
    _print({"id": asked.id}, answer)
    return _ending(answer)


def _ending(answer: Answer) -> Ending:
    return Ending.ACCEPTED if answer.is_sound else Ending.REJECTED


def _print(subject: dict[str, str | int], answer: Answer) -> None:
    typer.echo(msgspec.json.encode(subject | msgspec.to_builtins(answer)))


def _show(file: str, answer: Answer) -> None:
    typer.secho(f"{file}: {answer.sentence}", fg="green" if answer.is_sound else "red")
    if answer.message is not None:
        typer.echo(f"    {answer.message}")
    if answer.action is not None:
        typer.echo(f"    action: {answer.action}")
