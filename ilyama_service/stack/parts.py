"""The parts of a stack, in the order in which they start; they stop in the opposite order."""

import sys
from typing import Final, NamedTuple

from ilyama_resources.embedded.keeper import STAY
from ilyama_resources.settings import Ingest, Settings

_KEEPER: Final = (sys.executable, "-m", "ilyama_resources.embedded.keeper")
_LAUNCHER: Final = (sys.executable, "-m", "ilyama_service.stack.launcher")


class Part(NamedTuple):
    """One supervised process."""

    name: str
    command: tuple[str, ...]
    stop_within_s: int


def parts_of(settings: Settings, *, simulator: bool) -> list[Part]:
    """The parts that a deployment runs on this machine; what has an address of its own is not."""
    embedded = [
        ("postgres", settings.postgres_url is None, 60),
        ("broker", settings.broker_url is None, 30),
        ("spark", settings.spark_remote is None, 30),
    ]
    launched = [
        ("code", True, 20),
        ("api", True, 20),
        ("webserver", True, 10),
        ("daemon", True, 20),
        ("ingest", settings.ingest is Ingest.PROCESS, 30),
        ("simulator", simulator, 20),
    ]
    kept = [Part(name, (*_KEEPER, name, STAY), s) for name, wanted, s in embedded if wanted]
    return kept + [Part(name, (*_LAUNCHER, name), s) for name, wanted, s in launched if wanted]
