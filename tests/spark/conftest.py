"""One warm session for all tests of the transforms."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from ilyama_resources.spark_sessions import spark_session


@pytest.fixture(scope="session")
def session(spark_remote: str) -> Iterator[SparkSession]:
    with spark_session(spark_remote, "transforms") as opened:
        yield opened
