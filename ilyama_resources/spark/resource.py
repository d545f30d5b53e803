"""Spark as a resource of Dagster: a run's session on the warm server."""

from contextlib import ExitStack
from typing import Any

from dagster import InitResourceContext
from dagster_pyspark import LazyPySparkResource
from pydantic import Field, PrivateAttr

from ilyama_resources.embedded.spark_server import spark_in_use
from ilyama_resources.settings import load_settings
from ilyama_resources.spark.sessions import open_session, release


class Spark(LazyPySparkResource):
    """The session of a run, on the configured server or on the embedded one.

    Nothing is started before the session is first asked for.
    """

    spark_config: dict[str, Any] = Field(default_factory=dict)
    role: str = "intake"
    _borrowed: ExitStack = PrivateAttr(default_factory=ExitStack)

    def _init_session(self) -> None:
        if self._spark_session is None:
            remote = self._borrowed.enter_context(spark_in_use(load_settings()))
            self._spark_session = open_session(remote, self.role)

    def teardown_after_execution(self, context: InitResourceContext) -> None:
        """Let go of the session, but leave it warm for the next run."""
        del context
        if self._spark_session is not None:
            release(self._spark_session)
            self._spark_session = None
        self._borrowed.close()
