"""Ratio 4: a new process until its first Spark result, against a cold session of its own.

Both processes sum up the same Delta table. One asks the platform's warm Spark Connect server, by
the function that runs use; the other starts Spark itself, with the Delta jars and nothing tuned.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from benchmarks.measuring import Figure, Measured, always, interleaved, timed
from benchmarks.workbench import Workbench
from ilyama_resources.embedded.java import find_java
from ilyama_resources.embedded.server import python_path

ROWS = 4096

_WARM = """
import sys
from ilyama_resources.spark import spark_session
with spark_session(sys.argv[1], "bench") as session:
    rows = session.read.format("delta").load(sys.argv[2]).selectExpr("sum(number)").collect()
    print(rows[0][0])
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
session.stop()
"""

_IMPORTS = "from ilyama_resources.spark import spark_session"


def measure(bench: Workbench) -> Measured:
    """Start both processes by turns; each must print the right sum."""
    table = bench.home / "numbers"
    write_deltalake(table, pa.table({"number": pa.array(range(ROWS), pa.int64())}))
    jars = ",".join(map(str, sorted((bench.settings.jars / "delta").glob("*.jar"))))
    warm, cold = (_WARM, bench.spark_remote, str(table)), (_COLD, jars, str(table))
    _summed(bench.home, *warm)
    measured = interleaved(
        always(lambda: _summed(bench.home, *warm)),
        always(lambda: _summed(bench.home, *cold)),
        rounds=bench.scale.process_rounds,
    )
    imports = timed(lambda: _python(bench.home, _IMPORTS))
    return measured.with_figures(Figure("of it, the platform's imports", imports, "s"))


def _summed(home: Path, script: str, *words: str) -> None:
    assert int(_python(home, script, *words).split()[-1]) == sum(range(ROWS))


def _python(home: Path, script: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        env=_environment(),
        cwd=home,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _environment() -> dict[str, str]:
    """What a shell has: this process has met Spark, and its variables would tell the next."""
    own = {n: v for n, v in os.environ.items() if not n.startswith(("SPARK_", "PYSPARK_"))}
    return own | python_path() | {"JAVA_HOME": str(find_java().parent.parent)}
