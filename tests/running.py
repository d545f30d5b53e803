"""A whole stack for tests: every part real, on ports of its own, in a home of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psutil

from ilyama_resources.embedded.broker_server import EmbeddedBroker
from ilyama_resources.embedded.ports import LOOPBACK, free_port
from ilyama_resources.embedded.postgres_server import EmbeddedPostgres
from ilyama_resources.embedded.server import EmbeddedServer
from ilyama_resources.embedded.spark_server import EmbeddedSpark
from ilyama_resources.mqtt.address import BrokerAddress
from ilyama_resources.mqtt.client import MqttClient
from ilyama_resources.settings import PREFIX, REPOSITORY, Settings
from ilyama_service.stack.status import Status, status_of
from tests.waiting import eventually

START_WITHIN_S = 400
LOOK_EVERY_S = 0.25
EMBEDDED: dict[str, type[EmbeddedServer]] = {
    "postgres": EmbeddedPostgres,
    "broker": EmbeddedBroker,
    "spark": EmbeddedSpark,
}


@dataclass
class RunningStack:
    """A stack that was started by `ilyama up --detach`."""

    settings: Settings

    def ilyama(
        self, *words: str, variables: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run the command line, whatever comes of it."""
        return subprocess.run(
            [sys.executable, "-m", "ilyama_service.cli", *words],
            env=self.environment | dict(variables or {}),
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            timeout=START_WITHIN_S,
            check=False,
        )

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a process that belongs to this stack."""
        own = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
        return own | self.settings.environment()

    def status(self) -> Status:
        """What `ilyama status` looks at; to ask again and again, no process is started for it."""
        return status_of(self.settings)

    def is_healthy(self) -> bool:
        """Whether every part is healthy."""
        return self.status().healthy

    def pid(self, part: str) -> int | None:
        """The process that does a part's work, rather than the one that keeps it."""
        if part in EMBEDDED:
            endpoint = EMBEDDED[part](self.settings).endpoint()
            return None if endpoint is None else endpoint.pid
        (found,) = [one.pid for one in self.status().parts if one.name == part]
        return found

    def becomes_healthy(self, *, within_s: float = START_WITHIN_S) -> bool:
        """Whether every part is healthy in time."""
        return eventually(self.is_healthy, within_s=within_s, every_s=LOOK_EVERY_S)

    def kill(self, part: str) -> int:
        """End the process of a part at once, as a crash does."""
        pid = self.pid(part)
        assert pid is not None, f"{part} is not running"
        os.kill(pid, signal.SIGKILL)
        return pid

    def recovers(self, part: str, *, killed: int, within_s: float) -> bool:
        """Whether a part runs in a new process in time, and every other is healthy."""
        return eventually(
            lambda: self.pid(part) not in (killed, None) and self.is_healthy(),
            within_s=within_s,
            every_s=LOOK_EVERY_S,
        )

    def device(self, client_id: str = "test-device") -> MqttClient:
        """A client of the broker."""
        with EmbeddedBroker(self.settings).in_use() as url:
            return MqttClient(BrokerAddress.of(url, self.settings), client_id)

    def get(self, path: str, **query: str) -> dict[str, Any]:
        """Ask the HTTP API."""
        url = f"http://{LOOPBACK}:{self.settings.api_port}{path}?{urlencode(query)}"
        token = (self.settings.home / "api" / "admin-token").read_text().strip()
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            told: dict[str, Any] = json.load(answer)
            return told

    def current_value(self, device: str, key: str, instance: str) -> Any:
        """A current value as the API serves it; None when there is none."""
        found = self.get("/v1/current-values", device=device, key=key, instance=instance)["items"]
        return found[0]["value"] if found else None


def stack_settings(home: Path, **changes: Any) -> Settings:
    """Settings of a stack on free ports."""
    ports = {name: free_port() for name in ("broker_port", "dagster_port", "api_port")}
    return Settings(home=home, **(ports | changes))


@contextmanager
def running_stack(home: Path, **changes: Any) -> Iterator[RunningStack]:
    """Start a stack, and stop it whatever happens."""
    stack = RunningStack(stack_settings(home, **changes))
    done = stack.ilyama("up", "--detach")
    try:
        assert done.returncode == 0, done.stderr + done.stdout
        yield stack
    finally:
        stack.ilyama("down")
        assert eventually(lambda: not processes_of(home)), processes_of(home)


def processes_of(home: Path) -> list[str]:
    """The living processes that belong to a home."""
    variable = f"{PREFIX}HOME"
    return [
        f"{process.pid} {_command(process)}"
        for process in psutil.process_iter()
        if process.pid != os.getpid() and _environment(process).get(variable) == str(home)
    ]


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())[:200]
    except psutil.Error:
        return "that is ending"


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        return dict(process.environ())
    except psutil.Error:
        return {}
