"""`ilyama check`: ask the validator about payloads before a device sends them."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from ilyama_protocol.guessing import guessed_path
from ilyama_protocol.rejections import Rejection
from ilyama_protocol.topics import MessageKind, kind_on
from ilyama_protocol.validation import validate
from ilyama_service.cli.check_in_order import answer_files_in_order, answer_lines_in_order
from ilyama_service.cli.check_inputs import REJECTED, read_payload, refuse
from ilyama_service.cli.check_lines import answer_lines

_WITHOUT_A_HINT = "sync/rows/batch"
_ENCODER = msgspec.json.Encoder()


class Report(msgspec.Struct):
    """The answer about a file."""

    file: str
    topic: str
    accepted: bool
    code: str | None = None
    json_path: str | None = None
    message: str | None = None
    action: str | None = None


def check(
    files: Annotated[list[Path], typer.Argument(help="Payload files; - is standard input.")],
    topic: Annotated[
        str | None,
        typer.Option(
            help="The topic they are for: a full one, or the part after its root. "
            "Without it, the payload's own members tell."
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per file.")
    ] = False,
    jsonl: Annotated[
        bool,
        typer.Option(
            "--jsonl", help='Take files of lines {"id", "topic", "payload_b64"}; answer each line.'
        ),
    ] = False,
    in_order: Annotated[
        bool,
        typer.Option(
            "--in-order",
            help="Take the messages as sent one after another, and answer with their history.",
        ),
    ] = False,
    unregistered: Annotated[
        bool, typer.Option("--unregistered", help="Answer as to a device that is not registered.")
    ] = False,
) -> None:
    """Validate payloads exactly as the platform does when a device sends them."""
    registered = not unregistered
    if jsonl:
        answer = answer_lines_in_order if in_order else answer_lines
        is_sound = answer(files, registered=registered)
    elif in_order:
        payloads = [(str(file), *_addressed(file, topic)) for file in files]
        is_sound = answer_files_in_order(payloads, as_json=as_json, registered=registered)
    else:
        is_sound = all(
            [_report(file, topic, as_json=as_json, registered=registered) for file in files]
        )
    if not is_sound:
        raise typer.Exit(REJECTED)


def _addressed(file: Path, topic: str | None) -> tuple[str, bytes]:
    """A payload with its topic: the given one, or what its members tell."""
    if topic is not None and kind_on(topic) is MessageKind.DEVICE:
        refuse("check knows the messages below sync/ only, not those below devices/")
    payload = read_payload(file)
    told = guessed_path(payload) or _WITHOUT_A_HINT if topic is None else topic
    return told, payload


def _report(file: Path, topic: str | None, *, as_json: bool, registered: bool) -> bool:
    judged_on, payload = _addressed(file, topic)
    verdict = validate(kind_on(judged_on), payload, registered=registered)
    report = Report(str(file), judged_on, accepted=not isinstance(verdict, Rejection))
    if isinstance(verdict, Rejection):
        report.code, report.json_path = verdict.code, verdict.json_path
        report.message, report.action = verdict.message, verdict.action
    if as_json:
        typer.echo(_ENCODER.encode(report))
    else:
        _show(report, guessed=topic is None)
    return report.accepted


def _show(report: Report, *, guessed: bool) -> None:
    subject = f"{report.file} on {report.topic}" if guessed else report.file
    if report.accepted:
        typer.secho(f"{subject}: accepted", fg="green")
        return
    typer.secho(f"{subject}: {report.code} at {report.json_path}", fg="red")
    typer.echo(f"    {report.message}")
    typer.echo(f"    action: {report.action}")
