"""What the supervisor starts: it waits for what a part needs, then becomes that part.

`python -m ilyama_service.stack.launcher PART`
"""

import os
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

from ilyama_resources.embedded.pacing import wait_for_turn
from ilyama_resources.embedded.ports import LOOPBACK, accepts
from ilyama_resources.embedded.postgres_server import EmbeddedPostgres
from ilyama_resources.embedded.server import belong_to_supervisor, wait_until
from ilyama_resources.errors import PlatformError
from ilyama_resources.postgres import Gateway
from ilyama_resources.settings import Settings, load_settings
from ilyama_service.dagster_home import DagsterHome

_CODE_STARTS_WITHIN_S: Final = 180
_FLEET: Final = ("--telemetry", "0.2")
Command = list[str]


class PartNotReady(PlatformError):
    """Something that a part needs does not come; the supervisor will try again."""


def code(settings: Settings) -> Command:
    """The server of the code location; before it starts, all records are brought up to date."""
    from ilyama_service.dagster_instances import initialise_storage

    home = DagsterHome(settings)
    with closing(Gateway(_postgres_url(settings))) as gateway:
        gateway.migrate()
        home.prepare(gateway)
        initialise_storage(home, gateway)
    return [
        *(sys.executable, "-m", "dagster", "api", "grpc"),
        *("--module-name", "ilyama_assets.definitions", "--location-name", "ilyama"),
        *("--host", LOOPBACK, "--port", str(home.choose_code_port())),
    ]


def webserver(settings: Settings) -> Command:
    """The Dagster UI."""
    home = _home_with_code(settings)
    port = str(settings.dagster_port)
    return [_program("dagster-webserver"), "-h", LOOPBACK, "-p", port, "-w", str(home.workspace)]


def daemon(settings: Settings) -> Command:
    """The daemon that evaluates sensors and automation."""
    home = _home_with_code(settings)
    return [_program("dagster-daemon"), "run", "-w", str(home.workspace)]


def api(settings: Settings) -> Command:
    """The HTTP API."""
    _postgres_url(settings)
    return [sys.executable, "-m", "ilyama_service.api"]


def ingest(settings: Settings) -> Command:
    """The subscriber that lands messages, when the sensor does not."""
    del settings
    return [sys.executable, "-m", "ilyama_service.cli", "ingest"]


def simulator(settings: Settings) -> Command:
    """A small fleet, so that there is something to see."""
    del settings
    return [sys.executable, "-m", "ilyama_service.cli", "simulate", "--forever", *_FLEET]


LAUNCHERS: Final[dict[str, Callable[[Settings], Command]]] = {
    launcher.__name__: launcher for launcher in (code, webserver, daemon, api, ingest, simulator)
}


def main() -> None:
    """Become the part named on the command line."""
    part = sys.argv[1]
    try:
        settings = load_settings()
        belong_to_supervisor(settings)
        wait_for_turn(settings, part)
        command = LAUNCHERS[part](settings)
    except PlatformError as error:
        sys.exit(str(error))
    os.execv(command[0], command)


def _home_with_code(settings: Settings) -> DagsterHome:
    home = DagsterHome(settings)

    def answers() -> bool:
        port = home.code_port()
        return port is not None and accepts(port)

    if not wait_until(answers, within_s=_CODE_STARTS_WITHIN_S):
        raise PartNotReady("The code server does not start; see `ilyama logs code`.")
    home.point_here(_postgres_url(settings))
    return home


def _postgres_url(settings: Settings) -> str:
    if settings.postgres_url is not None:
        return settings.postgres_url
    endpoint = EmbeddedPostgres(settings).awaited()
    if endpoint is None:
        raise PartNotReady("Postgres does not start; see `ilyama logs postgres`.")
    return endpoint.url


def _program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


if __name__ == "__main__":
    main()
