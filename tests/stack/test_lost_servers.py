"""A server that dies in the middle: a clear sentence, and the next run finishes the work."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ilyama_resources.embedded.postgres_server import EmbeddedPostgres
from ilyama_resources.embedded.server import EmbeddedServer
from ilyama_resources.embedded.spark_server import EmbeddedSpark
from ilyama_resources.postgres import Gateway
from ilyama_resources.settings import REPOSITORY, Settings
from tests.platform import Platform
from tests.streams import generate
from tests.waiting import eventually

EVENTS = generate(31, batches=60, day_crossings=False)


@pytest.fixture
def own_servers(tmp_path: Path) -> Iterator[Platform]:
    """A platform whose servers may be killed."""
    settings = Settings(home=tmp_path / "home with spaces")
    settings.make_directories()
    with EmbeddedPostgres(settings).in_use() as url, EmbeddedSpark(settings).in_use():
        gateway = Gateway(url)
        gateway.migrate()
        yield Platform(settings, gateway)
        gateway.close()


def _is_draining(platform: Platform) -> bool:
    with platform.gateway.transaction() as tx:
        return tx.drains.unfinished() is not None


@pytest.mark.parametrize("server", [EmbeddedSpark, EmbeddedPostgres], ids=["spark", "postgres"])
def test_a_server_that_dies_in_a_drain_loses_nothing(
    own_servers: Platform, server: type[EmbeddedServer]
) -> None:
    own_servers.import_events(EVENTS)
    with subprocess.Popen(
        [sys.executable, "-m", "ilyama_service.cli", "drain"],
        env=os.environ | own_servers.settings.environment(),
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as draining:
        assert eventually(lambda: _is_draining(own_servers))
        endpoint = server(own_servers.settings).endpoint()
        assert endpoint is not None
        os.kill(endpoint.pid, signal.SIGKILL)
        _, told = draining.communicate(timeout=240)
    assert draining.returncode == 1
    assert "ilyama: " in told
    assert "Traceback" not in told
    own_servers.drain()
    own_servers.assert_equals_oracle(EVENTS)
