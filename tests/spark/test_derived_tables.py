"""A derived table takes a run once, also when the run of a killed client is still at work."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ilyama_assets.derived import write_once
from ilyama_resources.spark.sessions import spark_session


def test_two_clients_at_the_same_run_write_it_once(
    session: SparkSession, spark_remote: str, tmp_path: Path
) -> None:
    table = tmp_path / "values"
    session.range(10).write.format("delta").save(str(table))
    statement = f"INSERT INTO delta.`{table}` SELECT id FROM range(10, 20)"

    with spark_session(spark_remote, "another client") as other, ThreadPoolExecutor(2) as both:
        for client in (session, other):
            client.conf.set("spark.databricks.delta.write.txnAppId", "values")
            client.conf.set("spark.databricks.delta.write.txnVersion", "1")
        try:
            list(both.map(write_once, (session, other), (statement, statement)))
        finally:
            session.conf.unset("spark.databricks.delta.write.txnAppId")
            session.conf.unset("spark.databricks.delta.write.txnVersion")

    assert sorted(DeltaTable(table).to_pyarrow_table()["id"].to_pylist()) == list(range(20))


def test_any_other_failure_is_told(session: SparkSession) -> None:
    with pytest.raises(PySparkException, match="no_such_table"):
        write_once(session, "INSERT INTO no_such_table SELECT 1")
