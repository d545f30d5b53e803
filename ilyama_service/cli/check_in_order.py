"""`ilyama check --in-order`: what the platform answers to messages that follow one another.

The real intake engine takes them, so that retries, conflicts, late rows and sequence numbers are
answered as they are when a device sends these messages to a platform that knew nothing of it.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import typer

from ilyama_protocol.rehearsal import Answer, Rehearsal
from ilyama_service.cli.check_inputs import NoSubmission, opened, submission_of


def answer_files_in_order(
    payloads: Iterable[tuple[str, str, bytes]], *, as_json: bool, registered: bool
) -> bool:
    """Answer (file, topic, payload) one after another; tell whether nothing is to be repaired."""
    rehearsal = Rehearsal()
    all_sound = True
    for file, topic, payload in payloads:
        answer = rehearsal.publish(topic, payload, registered=registered)
        if as_json:
            _print({"file": file, "topic": topic}, answer)
        else:
            _show(file, answer)
        all_sound = all_sound and answer.is_sound
    return all_sound


def answer_lines_in_order(files: Sequence[Path], *, registered: bool) -> bool:
    """Answer the submissions of all files one after another."""
    rehearsal = Rehearsal()
    return all([_answer_file(file, rehearsal, registered=registered) for file in files])


def _answer_file(file: Path, rehearsal: Rehearsal, *, registered: bool) -> bool:
    all_sound = True
    with opened(file) as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                is_sound = _answer_line(number, line, rehearsal, registered=registered)
                all_sound = is_sound and all_sound
    return all_sound


def _answer_line(number: int, line: bytes, rehearsal: Rehearsal, *, registered: bool) -> bool:
    try:
        asked = submission_of(number, line, registered=registered)
    except NoSubmission as error:
        typer.echo(str(error), err=True)
        return False
    answer = rehearsal.publish(asked.topic, asked.payload_b64, registered=asked.registered)
    _print({"id": asked.id}, answer)
    return answer.is_sound


def _print(subject: dict[str, str | int], answer: Answer) -> None:
    typer.echo(msgspec.json.encode(subject | msgspec.to_builtins(answer)))


def _show(file: str, answer: Answer) -> None:
    typer.secho(f"{file}: {answer.sentence}", fg="green" if answer.is_sound else "red")
    if answer.message is not None:
        typer.echo(f"    {answer.message}")
    if answer.action is not None:
        typer.echo(f"    action: {answer.action}")
