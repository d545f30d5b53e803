import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError

from ilyama_resources.embedded.postgres_server import EmbeddedPostgres, postgres_in_use
from ilyama_resources.embedded.server import EmbeddedServerError
from ilyama_resources.settings import Settings
from tests.stack.server_users import is_alive, user_of
from tests.waiting import eventually


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(Settings(home=tmp_path / "home"))
    yield server
    assert eventually(lambda: server.endpoint() is None)


def ask(url: str, question: str) -> list[object]:
    engine = create_engine(url)
    try:
        with engine.begin() as connection:
            result = connection.execute(text(question))
            return list(result.scalars()) if result.returns_rows else []
    finally:
        engine.dispose()


def pid_of(server: EmbeddedPostgres) -> int:
    endpoint = server.endpoint()
    assert endpoint is not None
    return endpoint.pid


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("wal_level", "logical"),
        ("listen_addresses", "127.0.0.1"),
        ("unix_socket_directories", ""),
        ("password_encryption", "scram-sha-256"),
        ("fsync", "on"),
        ("server_encoding", "UTF8"),
        ("TimeZone", "UTC"),
    ],
)
def test_the_server_is_set_up_for_the_platform(postgres_url: str, setting: str, value: str) -> None:
    assert ask(postgres_url, f"SHOW {setting}") == [value]


def test_the_records_have_a_database(postgres_url: str) -> None:
    assert "ilyama" in set(ask(postgres_url, "SELECT datname FROM pg_database"))


def test_nobody_enters_without_the_password(postgres_url: str) -> None:
    _, _, address = postgres_url.rpartition("@")
    with pytest.raises(OperationalError, match="password authentication failed"):
        ask(f"postgresql+psycopg2://ilyama:guess@{address}", "SELECT 1")


def test_state_and_password_are_private(postgres_url: str, platform_settings: Settings) -> None:
    assert postgres_url
    directory = platform_settings.postgres_dir
    modes = [stat.S_IMODE((directory / name).stat().st_mode) for name in ("", "data", "password")]
    assert modes == [0o700, 0o700, 0o600]


def test_a_configured_postgres_is_used_as_it_is(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", postgres_url="postgresql://u:p@db/x")
    with postgres_in_use(settings) as url:
        assert url == "postgresql+psycopg2://u:p@db/x"
    assert not settings.home.exists()


def test_asking_whether_it_runs_starts_and_creates_nothing(tmp_path: Path) -> None:
    assert EmbeddedPostgres(Settings(home=tmp_path / "home")).endpoint() is None
    assert not (tmp_path / "home").exists()


def test_data_and_port_outlive_the_last_user(server: EmbeddedPostgres) -> None:
    with server.in_use() as first:
        ask(first, "CREATE TABLE kept AS SELECT 7 AS n")
        pid = pid_of(server)
    assert eventually(lambda: not is_alive(pid))
    with server.in_use() as second:
        assert second == first
        assert ask(second, "SELECT n FROM kept") == [7]


def test_users_share_one_server_and_the_last_one_killed_ends_it(server: EmbeddedPostgres) -> None:
    with user_of(server) as one, user_of(server) as other:
        pid = pid_of(server)
        assert one.url == other.url
        one.kill()
        assert ask(other.url, "SELECT 1") == [1]
        assert pid_of(server) == pid
        other.kill()
        assert eventually(lambda: not is_alive(pid))


def test_many_users_at_once_start_one_server(server: EmbeddedPostgres) -> None:
    with user_of(server) as one, user_of(server) as two, user_of(server) as three:
        assert len({one.url, two.url, three.url}) == 1


def test_a_killed_server_comes_back_with_its_data(server: EmbeddedPostgres) -> None:
    with server.in_use() as url:
        ask(url, "CREATE TABLE kept AS SELECT 7 AS n")
        os.kill(pid_of(server), signal.SIGKILL)
        assert eventually(lambda: server.endpoint() is None)
        assert server.ensure_running() == url
        assert ask(url, "SELECT n FROM kept") == [7]


def test_a_killed_keeper_takes_its_server_along(server: EmbeddedPostgres) -> None:
    with server.in_use() as url:
        pid = pid_of(server)
        os.kill(psutil.Process(pid).ppid(), signal.SIGKILL)
        assert eventually(lambda: server.endpoint() is None)
        assert server.ensure_running() == url
        assert ask(url, "SELECT 1") == [1]
        assert not is_alive(pid)


def test_an_interrupted_creation_of_the_data_is_repeated(server: EmbeddedPostgres) -> None:
    half_done = server.settings.postgres_dir / "data.new"
    half_done.mkdir(parents=True)
    (half_done / "PG_VERSION").write_text("18\n")
    with server.in_use() as url:
        assert ask(url, "SELECT 1") == [1]


def test_a_failed_start_shows_the_end_of_the_log(server: EmbeddedPostgres) -> None:
    (server.settings.postgres_dir / "data").mkdir(parents=True, mode=0o700)
    with pytest.raises(EmbeddedServerError, match=r"could not access the server configuration"):
        server.in_use().__enter__()


def test_a_lost_password_is_named(server: EmbeddedPostgres) -> None:
    with server.in_use():
        pid = pid_of(server)
    assert eventually(lambda: not is_alive(pid))
    (server.settings.postgres_dir / "password").write_text("another")
    with pytest.raises(EmbeddedServerError, match=r"postgres/password is not the right one\."):
        server.in_use().__enter__()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs Postgres under another account")
def test_root_runs_it_under_another_account(postgres_url: str, platform_settings: Settings) -> None:
    assert postgres_url
    endpoint = EmbeddedPostgres(platform_settings).endpoint()
    assert endpoint is not None
    assert psutil.Process(endpoint.pid).uids().real != 0


def test_a_child_of_a_user_does_not_keep_the_server(server: EmbeddedPostgres) -> None:
    with server.in_use():
        pid = pid_of(server)
        bystander = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
        )
    with bystander:
        assert eventually(lambda: not is_alive(pid))
