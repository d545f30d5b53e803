"""Servers that a deployment was given the address of are probed like its own."""

from pathlib import Path

import pytest

from ilyama_resources.embedded.ports import LOOPBACK, free_port
from ilyama_resources.settings import Settings
from ilyama_service.stack import health
from ilyama_service.stack.status import PartHealth, part_healths
from ilyama_service.stack.supervision import Supervisor

SERVERS = ("postgres", "broker", "spark")


def healths(settings: Settings) -> dict[str, PartHealth]:
    found = part_healths(settings, Supervisor(settings))
    return {part.name: part for part in found if part.name in SERVERS}


@pytest.fixture
def elsewhere(tmp_path: Path, postgres_url: str, broker_url: str, spark_remote: str) -> Settings:
    """A home whose servers all run elsewhere."""
    return Settings(
        home=tmp_path, postgres_url=postgres_url, broker_url=broker_url, spark_remote=spark_remote
    )


def test_servers_that_answer_are_healthy_whether_a_stack_runs_or_not(elsewhere: Settings) -> None:
    found = healths(elsewhere)
    assert [part for part in found.values() if not part.healthy] == []
    assert set(found) == set(SERVERS)


def test_of_servers_that_are_away_it_is_said_what_is_wrong(tmp_path: Path) -> None:
    at = f"{LOOPBACK}:{free_port()}"
    settings = Settings(
        home=tmp_path,
        postgres_url=f"postgresql://u:secret@{at}/d",
        broker_url=f"mqtt://u:secret@{at}",
        spark_remote=f"sc://{at}/;token=secret",
    )
    found = healths(settings)
    told = {name: part.detail for name, part in found.items() if not part.healthy}
    assert "Connection refused" in told["postgres"]
    assert told["broker"] == (
        f"is not to be had: The broker {at} is not there: [Errno 111] Connection refused"
    )
    assert told["spark"] == f"is not to be had: Spark does not answer at {at}."
    assert "secret" not in str(told)


def test_a_broker_that_refuses_the_password_is_not_healthy(elsewhere: Settings) -> None:
    at = (elsewhere.broker_url or "").rpartition("@")[2]
    problem = health.broker(elsewhere.model_copy(update={"broker_url": f"mqtt://u:wrong@{at}"}))
    assert problem is not None
    assert f"The broker {at} refuses" in problem


def test_an_address_that_is_no_address_of_spark_is_named_without_its_token(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, spark_remote="sc://host:15002/path;token=secret")
    problem = health.spark(settings)
    assert problem is not None
    assert "ILYAMA_SPARK_REMOTE is wrong" in problem
    assert "secret" not in problem
