"""The real servers, started when the first test asks for them and shared by all of a session."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from ilyama_resources.embedded.broker_server import EmbeddedBroker
from ilyama_resources.embedded.ports import free_port
from ilyama_resources.embedded.postgres_server import EmbeddedPostgres
from ilyama_resources.embedded.spark_server import EmbeddedSpark
from ilyama_resources.settings import PREFIX, Settings
from tests.platform import Platform, fresh_platform

# On a machine that runs two of everything else, how long an example takes says nothing.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.fixture(scope="session", autouse=True)
def _no_settings_of_the_developer() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(PREFIX)]:
            patch.delenv(name)
        patch.setitem(Settings.model_config, "env_file", None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _signals_are_heard() -> None:
    """Tests that run in the background would start processes that ignore Ctrl-C."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _java_starts_quickly() -> Iterator[None]:
    """The servers of tests live for minutes: to compile their code well does not pay."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        yield


@pytest.fixture(scope="session")
def platform_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="session")
def platform_settings(platform_home: Path) -> Settings:
    return Settings(home=platform_home, broker_port=free_port())


@pytest.fixture(scope="session")
def postgres_url(platform_settings: Settings) -> Iterator[str]:
    with EmbeddedPostgres(platform_settings).in_use() as url:
        yield url


@pytest.fixture(scope="session")
def broker_url(platform_settings: Settings) -> Iterator[str]:
    with EmbeddedBroker(platform_settings).in_use() as url:
        yield url


@pytest.fixture(scope="session")
def spark_remote(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[str]:
    """A Spark that all workers of a run share, as it takes long to warm up; sessions are apart."""
    own = tmp_path_factory.getbasetemp()
    home = (own if worker_id == "master" else own.parent) / "spark"
    with EmbeddedSpark(Settings(home=home, spark_driver_memory="2g")).in_use() as remote:
        yield f"{remote};user_id={worker_id}"


@pytest.fixture
def platform(tmp_path: Path, postgres_url: str, spark_remote: str) -> Iterator[Platform]:
    """A platform of its own: fresh records and warehouse on the shared servers."""
    with fresh_platform(tmp_path, postgres_url=postgres_url, spark_remote=spark_remote) as made:
        yield made
