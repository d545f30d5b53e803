from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ilyama_resources.embedded.server import EmbeddedServerError
from ilyama_resources.embedded.spark_server import EmbeddedSpark, spark_in_use
from ilyama_resources.settings import Settings
from tests.stack.server_users import is_alive, user_of
from tests.waiting import eventually


@pytest.fixture(scope="module")
def spark(spark_remote: str) -> Iterator[SparkSession]:
    session = SparkSession.builder.remote(spark_remote).create()
    yield session
    session.stop()


def test_it_counts(spark: SparkSession) -> None:
    assert spark.range(5).count() == 5


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("spark.sql.session.timeZone", "UTC"),
        ("spark.ui.enabled", "false"),
        ("spark.connect.grpc.binding.address", "127.0.0.1"),
        ("spark.driver.bindAddress", "127.0.0.1"),
    ],
)
def test_it_is_set_up_for_the_platform(spark: SparkSession, setting: str, value: str) -> None:
    assert spark.conf.get(setting) == value


def test_the_clock_of_its_jvm_is_utc(spark: SparkSession) -> None:
    zone = spark.sql("SELECT java_method('java.lang.System', 'getProperty', 'user.timezone')")
    assert zone.collect()[0][0] == "UTC"


def test_its_python_workers_know_the_code_of_the_platform(spark: SparkSession) -> None:
    def name_of_the_code(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import ilyama_resources

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"name": [ilyama_resources.__name__]})

    names = spark.range(1).mapInArrow(name_of_the_code, "name string")
    assert [row.name for row in names.collect()] == ["ilyama_resources"]


def test_it_merges_into_a_delta_table(spark: SparkSession, tmp_path: Path) -> None:
    table = f"delta.`{tmp_path / 'table'}`"
    spark.sql(f"CREATE TABLE {table} USING delta AS SELECT id, 'old' AS v FROM range(3)")
    spark.sql(
        f"""MERGE INTO {table} t USING (SELECT id + 2 AS id, 'new' AS v FROM range(2)) s
        ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"""
    )
    rows = spark.sql(f"SELECT id, v FROM {table} ORDER BY id").collect()
    assert [tuple(row) for row in rows] == [(0, "old"), (1, "old"), (2, "new"), (3, "new")]


def test_nobody_enters_without_the_token(spark_remote: str) -> None:
    address, _, _ = spark_remote.partition("token=")
    session = SparkSession.builder.remote(f"{address}token=guess").create()
    with pytest.raises(PySparkException, match=r"(?i)token|unauthenticated"):
        session.range(1).count()


def test_a_configured_spark_is_used_as_it_is(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", spark_remote="sc://cluster:15002")
    with spark_in_use(settings) as remote:
        assert remote == "sc://cluster:15002"
    assert not settings.home.exists()


def test_a_missing_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EmbeddedServerError, match="Java is missing: run `make setup`"):
        EmbeddedSpark(Settings(home=tmp_path / "home")).in_use().__enter__()


def test_users_share_one_server_and_the_last_one_killed_ends_it(tmp_path: Path) -> None:
    server = EmbeddedSpark(Settings(home=tmp_path / "home", spark_driver_memory="512m"))
    with user_of(server) as one, user_of(server) as other:
        endpoint = server.endpoint()
        assert endpoint is not None
        assert one.url == other.url == endpoint.url
        one.kill()
        assert is_alive(endpoint.pid)
        other.kill()
        assert eventually(lambda: not is_alive(endpoint.pid) and server.endpoint() is None)
