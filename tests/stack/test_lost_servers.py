"""A server that dies in the middle: a clear sentence, and the next run finishes the work."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def platform_on(settings: Settings, postgres_url: str) -> Iterator[Platform]:
    gateway = Gateway(postgres_url)
    gateway.migrate()
    yield Platform(settings, gateway)
    gateway.close()


@pytest.fixture
def own_postgres(tmp_path: Path, spark_remote: str) -> Iterator[Platform]:
    """A platform whose Postgres may be killed."""
    settings = Settings(home=tmp_path / "home", spark_remote=spark_remote)
    with EmbeddedPostgres(settings).in_use() as url, platform_on(settings, url) as made:
        yield made


@pytest.fixture
def own_servers(tmp_path: Path) -> Iterator[Platform]:
    """A platform whose servers may be killed, Spark too."""
    settings = Settings(home=tmp_path / "home with spaces")
    with (
        EmbeddedPostgres(settings).in_use() as url,
        EmbeddedSpark(settings).in_use(),
        platform_on(settings, url) as made,
    ):
        yield made


def _is_draining(platform: Platform) -> bool:
    with platform.gateway.transaction() as tx:
        return tx.drains.unfinished() is not None


def test_a_spark_that_dies_in_a_drain_loses_nothing(own_servers: Platform) -> None:
    drain_and_kill(own_servers, EmbeddedSpark)
    own_servers.drain()
    own_servers.assert_equals_oracle(EVENTS)


def test_a_postgres_that_dies_in_a_drain_loses_nothing(own_postgres: Platform) -> None:
    drain_and_kill(own_postgres, EmbeddedPostgres)
    own_postgres.drain()
    own_postgres.assert_equals_oracle(EVENTS)


def drain_and_kill(platform: Platform, server: type[EmbeddedServer]) -> None:
    """Kill a server in the midst of a drain, which says so in a sentence."""
    platform.import_events(EVENTS)
    with subprocess.Popen(
        [sys.executable, "-m", "ilyama_service.cli", "drain"],
        env=os.environ | platform.settings.environment(),
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as draining:
        assert eventually(lambda: _is_draining(platform))
        endpoint = server(platform.settings).endpoint()
        assert endpoint is not None
        os.kill(endpoint.pid, signal.SIGKILL)
        _, told = draining.communicate(timeout=240)
    assert draining.returncode == 1
    assert "ilyama: " in told
    assert "Traceback" not in told
