"""`ilyama simulate`: its words here, its work imported when it is called."""

from collections.abc import Collection, Mapping
from typing import Annotated, Final

import typer

_Run = Annotated[str | None, typer.Argument(help="With --verify: the run; the newest without it.")]
_Devices = Annotated[int, typer.Option(min=1, help="How many devices there are.")]
_Rate = Annotated[float, typer.Option(min=0.01, help="Messages per second of the whole fleet.")]
_Seed = Annotated[
    int | None, typer.Option(help="The same seed and options send the same messages.")
]
_Duration = Annotated[
    float | None, typer.Option(min=0, help="Seconds' worth of messages. (default: 60)")
]
_Messages = Annotated[int | None, typer.Option(min=1, help="How many messages.")]
_Forever = Annotated[bool, typer.Option("--forever", help="Until it is stopped.")]
_RowsPerBatch = Annotated[int, typer.Option(min=1, max=4096, help="Rows of a batch.")]
_PayloadBytes = Annotated[
    int, typer.Option(min=0, max=524288, help="Pad shorter payloads to this size.")
]
_Slug = Annotated[str, typer.Option(help="First level of all topics.")]
_Misbehave = Annotated[
    float, typer.Option(min=0, max=1, help="Share of what is not a usual batch.")
]
_Telemetry = Annotated[
    float, typer.Option(min=0, max=1, help="Share of the messages that are telemetry.")
]
_Connections = Annotated[int, typer.Option(min=1, help="MQTT connections that the devices share.")]
_Probe = Annotated[bool, typer.Option("--probe", help="Measure how long values take to be served.")]
_Register = Annotated[bool, typer.Option("--register", help="Register the devices first.")]
_Verify = Annotated[
    bool, typer.Option("--verify", help="Send nothing; compare a run with the platform.")
]
_Scenarios = Annotated[
    list[str] | None,
    typer.Option(
        help="Play one misbehaviour by its name and tell what came of it; may be repeated."
    ),
]
_List = Annotated[bool, typer.Option("--list", help="Send nothing; list the scenarios.")]
_Wait = Annotated[
    float, typer.Option(min=0, help="Seconds to wait for drains, or for the last probes.")
]
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


_HEEDED: Final[Mapping[str, Collection[str]]] = {
    "list_scenarios": {"as_json"},
    "scenario": {"slug", "wait", "as_json"},
    "verify": {"run", "wait", "as_json"},
}
"""What else counts where one of these is asked for; the first of them goes before the others."""


def simulate(
    context: typer.Context,
    run: _Run = None,
    devices: _Devices = 20,
    rate: _Rate = 5.0,
    seed: _Seed = None,
    duration: _Duration = None,
    messages: _Messages = None,
    forever: _Forever = False,
    rows_per_batch: _RowsPerBatch = 8,
    payload_bytes: _PayloadBytes = 0,
    slug: _Slug = "acme",
    misbehave: _Misbehave = 0.05,
    telemetry: _Telemetry = 0.0,
    connections: _Connections = 1,
    probe: _Probe = False,
    register: _Register = False,
    verify: _Verify = False,
    scenario: _Scenarios = None,
    list_scenarios: _List = False,
    wait: _Wait = 60.0,
    as_json: _Json = False,
) -> None:
    """Publish like a fleet of devices, good and bad; or verify what became of that."""
    from ilyama_service.cli import scenarios, simulated_fleet

    _refuse_what_is_ignored(context)
    if list_scenarios:
        scenarios.list_scenarios(as_json=as_json)
    elif scenario:
        scenarios.play_scenarios(scenario, slug=slug, wait_s=wait, as_json=as_json)
    elif verify:
        simulated_fleet.verify_run(run, wait_s=wait, as_json=as_json)
    else:
        planned = simulated_fleet.planned_run(
            simulated_fleet.Extent(duration, messages, forever=forever),
            seed=seed,
            probe=probe,
            probe_wait_s=wait,
            connections=connections,
            devices=devices,
            rate=rate,
            rows_per_batch=rows_per_batch,
            payload_bytes=payload_bytes,
            slug=slug,
            misbehave=misbehave,
            telemetry=telemetry,
        )
        simulated_fleet.run_fleet(planned, register=register, as_json=as_json)


def _refuse_what_is_ignored(context: typer.Context) -> None:
    """Refuse options that would count for nothing beside another one."""
    given = {
        parameter.name or "": parameter.opts[0]
        for parameter in context.command.params
        if context.params.get(parameter.name or "") not in (None, (), parameter.default)
    }
    chosen = next((name for name in _HEEDED if name in given), None)
    if chosen is None and "run" in given:
        raise typer.BadParameter("a run is named with --verify only.")
    for name, option in given.items():
        if chosen is not None and name != chosen and name not in _HEEDED[chosen]:
            said = option if option.startswith("-") else "a run"
            told = f"{said} is of no use beside {given[chosen]}; leave it out."
            raise typer.BadParameter(told)
