"""Ratio 4: a new process until its first Spark result, against a cold session of its own.

Both processes sum up the same Delta table. One asks the platform's warm Spark Connect server, by
the function that runs use; the other starts Spark itself, with the Delta jars and nothing tuned.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from benchmarks.measuring import Figure, Measured, Work, interleaved, timed
from benchmarks.workbench import Workbench
from ilyama_resources.embedded.java import find_java
from ilyama_resources.embedded.server import python_path

ROWS = 4096

_WARM = """
import sys
from ilyama_resources.spark.sessions import spark_session
with spark_session(sys.argv[1], "bench") as session:
    rows = session.read.format("delta").load(sys.argv[2]).selectExpr("sum(number)").collect()
    print(rows[0][0], flush=True)
"""

_COLD = """
import sys
from pyspark.sql import SparkSession
session = (
    SparkSession.builder.master("local[*]")
    .config("spark.jars", sys.argv[1])
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .getOrCreate()
)
rows = session.read.format("delta").load(sys.argv[2]).selectExpr("sum(number)").collect()
print(rows[0][0], flush=True)
"""

_IMPORTS = f"from ilyama_resources.spark.sessions import spark_session; print({sum(range(ROWS))})"
WITHIN_S = 60


def measure(bench: Workbench) -> Measured:
    """Start both processes by turns; each must print the right sum."""
    table = bench.home / "numbers"
    write_deltalake(table, pa.table({"number": pa.array(range(ROWS), pa.int64())}))
    jars = ",".join(map(str, sorted((bench.settings.jars / "delta").glob("*.jar"))))
    warm = _FirstResult(bench.home, _WARM, bench.spark_remote, str(table))
    cold = _FirstResult(bench.home, _COLD, jars, str(table))
    importing = _FirstResult(bench.home, _IMPORTS)
    timed(warm.prepare(0))
    measured = interleaved(warm.prepare, cold.prepare, rounds=bench.scale.process_rounds)
    imports = timed(importing.prepare(0))
    for side in (warm, cold, importing):
        side.end()
    return measured.with_figures(Figure("of it, the platform's imports", imports, "s"))


class _FirstResult:
    """Processes of one kind, each timed from its start until it prints its result."""

    def __init__(self, home: Path, script: str, *words: str) -> None:
        self._home = home
        self._command = [sys.executable, "-c", script, *words]
        self._log = home / "fresh-run.log"
        self._process: subprocess.Popen[str] | None = None

    def prepare(self, _: int) -> Work:
        """End the process before, which has said what it had to say."""
        self.end()
        return self._run

    def end(self) -> None:
        """Make an end of the last process and its JVM, if it has one."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate(timeout=WITHIN_S)
            self._process = None

    def _run(self) -> None:
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                self._command,
                env=_environment(),
                cwd=self._home,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        printed = self._process.stdout.readline() if self._process.stdout else ""
        assert printed.strip() == str(sum(range(ROWS))), self._log.read_text()


def _environment() -> dict[str, str]:
    """What a shell has: this process has met Spark, and its variables would tell the next."""
    own = {n: v for n, v in os.environ.items() if not n.startswith(("SPARK_", "PYSPARK_"))}
    return own | python_path() | {"JAVA_HOME": str(find_java().parent.parent)}
