"""What is wrong with a part, in words."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ilyama_resources.embedded import locks
from ilyama_resources.embedded.broker_server import EmbeddedBroker
from ilyama_resources.embedded.ports import LOOPBACK, free_port
from ilyama_resources.embedded.server import Endpoint
from ilyama_resources.settings import Settings
from ilyama_service.stack import health
from ilyama_service.stack.status import part_healths
from ilyama_service.stack.supervision import Supervisor

FULL = (
    "takes no messages: its disk has less than 1,099,511,627,776 MiB "
    "(ILYAMA_BROKER_MIN_DISK_FREE) left"
)


@pytest.fixture
def port() -> Iterator[int]:
    """Where something listens."""
    with socket.create_server((LOOPBACK, 0)) as listening:
        yield listening.getsockname()[1]


@pytest.mark.parametrize(
    ("min_disk_free", "told"),
    [(1, None), (2**60, FULL)],
    ids=["with room", "without room"],
)
def test_a_broker_on_a_full_disk_is_not_healthy(
    tmp_path: Path, port: int, min_disk_free: int, told: str | None
) -> None:
    settings = Settings(home=tmp_path, broker_min_disk_free=min_disk_free)
    settings.make_directories()
    settings.broker_dir.mkdir()
    server = EmbeddedBroker(settings)
    with locks.exclusive(server.keeper_lock):
        server.announce(Endpoint(url="mqtt://broker", port=port, pid=1))
        problem = health.broker(settings)
    assert problem == told


class _Ready(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/readyz" else 404)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        del format, args


@contextmanager
def ready_at(host: str) -> Iterator[int]:
    """Something that says it is ready, on one address of this machine."""

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

    with Server((host, 0), _Ready) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.7", "0.0.0.0", "::1", "::", "localhost"])
def test_the_api_is_asked_where_it_was_told_to_listen(tmp_path: Path, host: str) -> None:
    if ":" in host and not _has_ipv6():
        pytest.skip("this machine has no IPv6")
    with ready_at(host) as port:
        settings = Settings(home=tmp_path, api_host=host, api_port=port)
        assert health.api(settings) is None
    told = health.api(settings)
    assert told is not None
    assert "Connection refused" in told


def _has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


def test_of_servers_that_are_away_it_is_said_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "_PATIENCE_S", 1)
    at = f"{LOOPBACK}:{free_port()}"
    settings = Settings(
        home=tmp_path,
        postgres_url=f"postgresql://u:secret@{at}/d",
        broker_url=f"mqtt://u:secret@{at}",
        spark_remote=f"sc://{at}/;token=secret",
    )
    found = part_healths(settings, Supervisor(settings))
    told = {part.name: part.detail for part in found}
    assert told["postgres"].startswith("does not answer: ")
    assert "Connection refused" in told["postgres"]
    assert told["broker"] == (
        f"is not to be had: The broker {at} is not there: [Errno 111] Connection refused"
    )
    assert told["spark"] == f"is not to be had: Spark does not answer at {at}."
    assert "secret" not in str(told)


def test_an_address_that_is_no_address_of_spark_is_named_without_its_token(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, spark_remote="sc://host:15002/path;token=secret")
    problem = health.spark(settings)
    assert problem is not None
    assert "ILYAMA_SPARK_REMOTE is wrong" in problem
    assert "secret" not in problem
