"""The HTTP API as a process of its own, and the events that tests send to it."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from ilyama_protocol.intake.outcomes import Message
from ilyama_resources.embedded.ports import LOOPBACK, free_port
from ilyama_resources.landing.segment_files import read_messages
from ilyama_resources.settings import PREFIX, REPOSITORY, Settings
from tests.waiting import eventually

EVENT = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
TOPIC = "acme/dev-1/sync/rows/batch"


@dataclass(frozen=True)
class ApiServer:
    """A running API."""

    settings: Settings
    process: subprocess.Popen[bytes]
    log: Path
    topic: str = TOPIC

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.settings.api_port}"

    @property
    def token(self) -> str:
        return (self.settings.api_dir / "admin-token").read_text().strip()

    def client(self) -> httpx.Client:
        """A client with the admin's token."""
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60)

    def post(self, *payloads: bytes, **headers: str) -> httpx.Response:
        """Send a batch of events with these payloads."""
        with self.client() as client:
            return self.send(client, *payloads, **headers)

    def send(self, client: httpx.Client, *payloads: bytes, **headers: str) -> httpx.Response:
        """Send a batch of events with these payloads by a client that is there already."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        body = json.dumps([self.event(payload) for payload in payloads])
        return client.post("/v1/ingest", content=body, headers={"Content-Type": BATCH} | named)

    def event(self, payload: bytes, **members: Any) -> dict[str, Any]:
        """A CloudEvent that carries a payload."""
        return {
            "specversion": "1.0",
            "id": "1",
            "source": "tests",
            "type": "MQTT.EventPublished",
            "subject": self.topic,
            "data_base64": base64.b64encode(payload).decode(),
        } | members

    def get(self, path: str, **query: Any) -> Any:
        """The answer to a question that must not fail."""
        with self.client() as client:
            answer = client.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def pages(self, path: str, *, limit: int, **query: Any) -> list[dict[str, Any]]:
        """All items of a list, page by page."""
        page = self.get(path, limit=limit, **query)
        items: list[dict[str, Any]] = page["items"]
        while page["next_cursor"] is not None:
            assert len(page["items"]) == limit
            page = self.get(path, limit=limit, cursor=page["next_cursor"], **query)
            items = [*items, *page["items"]]
        return items

    def status(self, path: str) -> int:
        """The status of an answer; 0 while nobody answers."""
        with suppress(httpx.TransportError), self.client() as client:
            return client.get(path).status_code
        return 0

    def segments(self) -> dict[str, list[Message]]:
        """The messages under this topic that are on disk, by segment."""
        files = sorted(self.settings.landing.glob("segments/*/*.parquet"))
        found = {
            file.stem: list(read_messages(file, topics=frozenset({self.topic}))) for file in files
        }
        return {segment_id: messages for segment_id, messages in found.items() if messages}

    def landed(self) -> list[Message]:
        """The messages under this topic that are on disk, in order."""
        return [message for messages in self.segments().values() for message in messages]

    def payloads(self) -> list[bytes]:
        """Their payloads."""
        return [message.payload for message in self.landed()]


@contextmanager
def api_server(settings: Settings, **changes: Any) -> Iterator[ApiServer]:
    """An API on the records and the landing directory of the settings."""
    fast = {"api_port": free_port(), "api_rate_per_s": 100_000.0}
    own = settings.model_copy(update=fast | changes)
    own.make_directories()
    log = own.log / f"api-{own.api_port}.log"
    with (
        log.open("wb") as file,
        subprocess.Popen(
            [sys.executable, "-m", "ilyama_service.api"],
            env=_environment(own),
            cwd=REPOSITORY,
            stderr=file,
        ) as process,
    ):
        server = ApiServer(own, process, log)
        try:
            assert eventually(lambda: _answers(server)), log.read_text()
            yield server
        finally:
            process.terminate()
            process.wait(60)


def _answers(server: ApiServer) -> bool:
    assert server.process.poll() is None, server.log.read_text()
    with suppress(httpx.TransportError):
        return httpx.get(f"{server.url}/readyz", timeout=60).status_code == 200
    return False


def _environment(settings: Settings) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    return own | settings.environment()
