"""HTTP APIs for the tests: one that those of a module share, or one of its own."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from tests.api_server import ApiServer, api_server
from tests.platform import NO_SPARK, Platform, fresh_platform


@pytest.fixture
def platform_without_spark(tmp_path: Path, postgres_url: str) -> Iterator[Platform]:
    """A platform that only lands and is read."""
    with fresh_platform(tmp_path, postgres_url=postgres_url, spark_remote=NO_SPARK) as made:
        yield made


@pytest.fixture
def own_api(platform_without_spark: Platform) -> Iterator[ApiServer]:
    """An API with nothing landed, which may be killed."""
    with api_server(platform_without_spark.settings) as server:
        yield server


@pytest.fixture(scope="module")
def shared_platform(
    tmp_path_factory: pytest.TempPathFactory, postgres_url: str
) -> Iterator[Platform]:
    """A platform that the tests of a module share."""
    home = tmp_path_factory.mktemp("shared")
    with fresh_platform(home, postgres_url=postgres_url, spark_remote=NO_SPARK) as made:
        yield made


@pytest.fixture(scope="module")
def shared_api(shared_platform: Platform) -> Iterator[ApiServer]:
    """An API that the tests of a module share."""
    with api_server(shared_platform.settings, api_max_body_bytes=100_000) as server:
        yield server


@pytest.fixture
def api(shared_api: ApiServer) -> ApiServer:
    """The module's API, with a topic of the test's own."""
    return replace(shared_api, topic=f"acme/{uuid4()}/sync/rows/batch")
