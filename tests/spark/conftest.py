"""One warm session for all tests of the transforms, and the device tables of a platform."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from ilyama_assets.drains.protocol import Intake
from ilyama_resources.spark.sessions import spark_session
from tests.mirrors import Mirrors
from tests.platform import Platform


@pytest.fixture(scope="session")
def session(spark_remote: str) -> Iterator[SparkSession]:
    with spark_session(spark_remote, "transforms") as opened:
        yield opened


@pytest.fixture
def mirrors(platform: Platform, intake: Intake) -> Mirrors:
    return Mirrors(platform, intake.session())


@pytest.fixture(params=["written whole", "merged by Spark"])
def way(request: pytest.FixtureRequest, mirrors: Mirrors) -> None:
    """Small tables and large ones are written in different ways."""
    if request.param == "merged by Spark":
        mirrors.parts = mirrors.parts._replace(rewrite_bytes=0)
