"""The embedded Spark: one warm Spark Connect server with Delta, from the wheel and the jars."""

import importlib.util
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, ClassVar, Final

from ilyama_resources.embedded.java import find_java
from ilyama_resources.embedded.ports import LOOPBACK, accepts, free_port
from ilyama_resources.embedded.server import (
    EmbeddedServer,
    EmbeddedServerError,
    Endpoint,
    dies_with_parent,
    python_path,
    wait_until,
)
from ilyama_resources.settings import Settings, private_directory

_MAIN_CLASS: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
_QUIET_LOGGING: Final = Path(__file__).with_name("log4j2.properties")
_MIB: Final = 1024 * 1024
# Queries take as many tasks as there are cores: of two at a time, neither waits for the other.
_TASKS_PER_CORE: Final = 2
# What a shell may have set for another Spark.
_FOREIGN_VARIABLES: Final = ("SPARK_", "PYSPARK_", "HADOOP_CONF_DIR", "YARN_CONF_DIR")


@contextmanager
def spark_in_use(settings: Settings) -> Iterator[str]:
    """Give the Spark Connect address of the deployment: the configured one, else the embedded."""
    if settings.spark_remote is not None:
        yield settings.spark_remote
    else:
        with EmbeddedSpark(settings).in_use() as remote:
            yield remote


class EmbeddedSpark(EmbeddedServer):
    """A Spark Connect server on the loopback address that asks for a token."""

    part: ClassVar[str] = "spark"
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    start_within_s: ClassVar[float] = 180
    stop_within_s: ClassVar[float] = 30

    def start(self, log: IO[bytes]) -> tuple[subprocess.Popen[bytes], Endpoint]:
        """Start the server and wait until it listens."""
        self._require_jars()
        port = free_port()
        token = secrets.token_urlsafe(24)
        process = self._launch(log, port=port, token=token)
        if not wait_until(lambda: accepts(port), process=process, within_s=self.start_within_s):
            process.kill()
            raise EmbeddedServerError(f"Spark did not listen within {self.start_within_s:.0f} s.")
        # The client sends a token over an unencrypted channel to this very name only.
        url = f"sc://localhost:{port}/;token={token}"
        return process, Endpoint(url=url, port=port, pid=process.pid)

    def _require_jars(self) -> None:
        # Without them Spark starts all the same, and every table is then an error of its own.
        if not any(self._delta_jars.glob("*.jar")):
            raise EmbeddedServerError(f"{self._delta_jars} is empty: run `make setup`.")

    def _launch(self, log: IO[bytes], *, port: int, token: str) -> subprocess.Popen[bytes]:
        shutil.rmtree(self._scratch, ignore_errors=True)
        private_directory(self._scratch)
        return subprocess.Popen(
            self._command(port),
            cwd=self._scratch,
            env=self._environment(token),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=dies_with_parent(self.stop_signal),
        )

    def _command(self, port: int) -> list[str]:
        configuration = {**self._configuration(), "spark.connect.grpc.binding.port": str(port)}
        return [
            str(_spark_home() / "bin" / "spark-submit"),
            *("--class", _MAIN_CLASS),
            *("--name", "ilyama"),
            *("--master", f"local[{_TASKS_PER_CORE * self.settings.cores}]"),
            *("--driver-memory", self.settings.spark_driver_memory),
            *("--driver-class-path", str(self._delta_jars / "*")),
            *("--driver-java-options", _java_options()),
            *(word for pair in configuration.items() for word in ("--conf", "=".join(pair))),
            "spark-internal",
        ]

    def _configuration(self) -> dict[str, str]:
        cores = str(self.settings.cores)
        return {
            "spark.connect.grpc.binding.address": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.driver.host": LOOPBACK,
            "spark.ui.enabled": "false",
            # A drain does not queue behind the stages of a long derivation.
            "spark.scheduler.mode": "FAIR",
            "spark.sql.warehouse.dir": str(self.settings.warehouse),
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": cores,
            "spark.databricks.delta.snapshotPartitions": cores,
            # A message may have half a mebibyte: rows alone are no limit.
            "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
            "spark.sql.execution.arrow.maxBytesPerBatch": str(32 * _MIB),
            "spark.python.worker.reuse": "true",
        }

    def _environment(self, token: str) -> dict[str, str]:
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(_FOREIGN_VARIABLES)
        }
        return (
            inherited
            | python_path()
            | {
                "JAVA_HOME": str(find_java().parent.parent),
                "SPARK_HOME": str(_spark_home()),
                "SPARK_LOCAL_IP": LOOPBACK,
                "SPARK_LOCAL_DIRS": str(self._scratch),
                # Not on the command line, which every user of the machine can read.
                "SPARK_CONNECT_AUTHENTICATE_TOKEN": token,
                "PYSPARK_PYTHON": sys.executable,
                "TZ": "UTC",
            }
        )

    @property
    def _delta_jars(self) -> Path:
        return self.settings.jars / "delta"

    @property
    def _scratch(self) -> Path:
        return self.settings.run / "spark"


def _java_options() -> str:
    logging = f"-Dlog4j2.configurationFile={_QUIET_LOGGING.as_uri()}"
    return f"-Duser.timezone=UTC {logging}"


def _spark_home() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("pyspark")
    return Path(spec.origin).parent
