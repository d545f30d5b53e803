"""What Spark's client raises is told once, by whoever catches it."""

import logging.config
from importlib import import_module

import pytest
from pyspark.sql.connect.logging import logger


def test_the_client_stays_quiet_when_somebody_else_configures_logging(
    capfd: pytest.CaptureFixture[str],
) -> None:
    import_module("ilyama_resources.spark.sessions")
    logging.config.dictConfig({"version": 1, "disable_existing_loggers": False})

    assert not logger.disabled
    logger.error("GRPC Error received")
    assert capfd.readouterr().err == ""
