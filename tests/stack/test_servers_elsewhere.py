"""Servers that a deployment was given the address of are probed like its own."""

from pathlib import Path

import pytest

from ilyama_resources.postgres import Gateway
from ilyama_resources.settings import Settings
from ilyama_service.stack import health
from ilyama_service.stack.status import part_healths, status_of
from ilyama_service.stack.supervision import Supervisor


@pytest.fixture
def elsewhere(tmp_path: Path, postgres_url: str, broker_url: str, spark_remote: str) -> Settings:
    """A home whose servers all run elsewhere."""
    return Settings(
        home=tmp_path, postgres_url=postgres_url, broker_url=broker_url, spark_remote=spark_remote
    )


def test_servers_that_answer_are_healthy_whether_a_stack_runs_or_not(elsewhere: Settings) -> None:
    found = part_healths(elsewhere, Supervisor(elsewhere))
    assert [part.name for part in found if part.healthy] == ["postgres", "broker", "spark"]


def test_a_broker_that_refuses_the_password_is_not_healthy(elsewhere: Settings) -> None:
    at = (elsewhere.broker_url or "").rpartition("@")[2]
    problem = health.broker(elsewhere.model_copy(update={"broker_url": f"mqtt://u:wrong@{at}"}))
    assert problem is not None
    assert f"The broker {at} refuses" in problem


def test_a_database_without_tables_is_no_error(elsewhere: Settings) -> None:
    empty = Gateway(elsewhere.postgres_url or "").ensure_database("without_tables")
    status = status_of(elsewhere.model_copy(update={"postgres_url": empty}))
    assert status.rows_today is None
    assert "postgres" in [part.name for part in status.parts if part.healthy]
