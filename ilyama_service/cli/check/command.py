"""`ilyama check`: ask the validator about payloads before a device sends them."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer
from msgspec import UNSET, UnsetType

from ilyama_protocol.guessing import guessed_path
from ilyama_protocol.intake.outcomes import Outcome
from ilyama_protocol.rejections import Rejection
from ilyama_protocol.topics import MessageKind, kind_on
from ilyama_protocol.validation import validate
from ilyama_service.cli.check.in_order import answer_files_in_order, answer_lines_in_order
from ilyama_service.cli.check.inputs import Ending, Rules, read_payload, refuse, worst
from ilyama_service.cli.check.lines import answer_lines

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
    outcome: str | UnsetType = UNSET


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
    """Validate payloads exactly as the platform does when a device sends them, by its limits."""
    from ilyama_resources.settings import load_settings

    rules = Rules(load_settings().limits, registered=not unregistered)
    if jsonl:
        _refuse_beside_lines(topic, as_json=as_json)
        answer = answer_lines_in_order if in_order else answer_lines
        ending = answer(files, rules)
    elif in_order:
        payloads = [(str(file), *_addressed(file, topic)) for file in files]
        ending = answer_files_in_order(payloads, rules, as_json=as_json)
    else:
        ending = worst([_report(file, topic, rules, as_json=as_json) for file in files])
    if ending is not Ending.ACCEPTED:
        raise typer.Exit(ending)


def _refuse_beside_lines(topic: str | None, *, as_json: bool) -> None:
    if topic is not None:
        refuse("--jsonl takes the topic of every line from the line; leave out --topic.")
    if as_json:
        refuse("--jsonl always answers in JSON, a line for a line; leave out --json.")


def _addressed(file: Path, topic: str | None) -> tuple[str, bytes]:
    """A payload with its topic: the given one, or what its members tell."""
    payload = read_payload(file)
    told = guessed_path(payload) or _WITHOUT_A_HINT if topic is None else topic
    return told, payload


def _report(file: Path, topic: str | None, rules: Rules, *, as_json: bool) -> Ending:
    judged_on, payload = _addressed(file, topic)
    report = _judged(str(file), judged_on, payload, rules)
    if as_json:
        typer.echo(_ENCODER.encode(report))
    else:
        _show(report, guessed=topic is None)
    return Ending.ACCEPTED if report.accepted else Ending.REJECTED


def _judged(file: str, topic: str, payload: bytes, rules: Rules) -> Report:
    kind = kind_on(topic)
    if kind is MessageKind.DEVICE:
        return Report(file, topic, accepted=True, outcome=Outcome.KEPT)
    known, limits = rules.registered, rules.limits
    verdict = validate(kind, payload, registered=known, limits=limits, topic=topic)
    if not isinstance(verdict, Rejection):
        return Report(file, topic, accepted=True)
    told = (verdict.code, verdict.json_path, verdict.message, verdict.action)
    return Report(file, topic, False, *told)


def _show(report: Report, *, guessed: bool) -> None:
    subject = f"{report.file} on {report.topic}" if guessed else report.file
    if report.outcome is not UNSET:
        typer.secho(f"{subject}: {report.outcome}, stored as it is and not judged", fg="green")
        return
    if report.accepted:
        typer.secho(f"{subject}: accepted", fg="green")
        return
    typer.secho(f"{subject}: {report.code} at {report.json_path}", fg="red")
    typer.echo(f"    {report.message}")
    typer.echo(f"    action: {report.action}")
