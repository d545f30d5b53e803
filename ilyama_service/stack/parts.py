"""The parts of a stack, in the order in which they start; they stop in the opposite order."""

import sys
from typing import Final, NamedTuple

from ilyama_resources.embedded.keeper import STAY
from ilyama_resources.settings import Ingest, Settings

_KEEPER: Final = (sys.executable, "-m", "ilyama_resources.embedded.keeper")
_LAUNCHER: Final = (sys.executable, "-m", "ilyama_service.stack.launcher")

_SERVERS: Final = {"postgres": 60, "broker": 30, "spark": 30}
"""How long each may take to stop."""


class Part(NamedTuple):
    """One supervised process."""

    name: str
    command: tuple[str, ...]
    stop_within_s: int


def parts_of(settings: Settings, *, simulator: bool) -> list[Part]:
    """The parts that a deployment runs on this machine; what has an address of its own is not."""
    elsewhere = servers_elsewhere(settings)
    launched = [
        ("code", True, 20),
        ("api", True, 20),
        ("webserver", True, 10),
        ("daemon", True, 20),
        ("ingest", settings.ingest is Ingest.PROCESS, 30),
        ("simulator", simulator, 20),
    ]
    kept = [
        Part(name, (*_KEEPER, name, STAY), s)
        for name, s in _SERVERS.items()
        if name not in elsewhere
    ]
    return kept + [Part(name, (*_LAUNCHER, name), s) for name, wanted, s in launched if wanted]


def servers_elsewhere(settings: Settings) -> list[str]:
    """The servers that a deployment does not run itself: those that were given an address."""
    addresses = (settings.postgres_url, settings.broker_url, settings.spark_remote)
    return [name for name, given in zip(_SERVERS, addresses, strict=True) if given is not None]
