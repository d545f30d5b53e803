"""The embedded Postgres: the programs of a wheel, the data in the home."""

import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import IO, ClassVar, Final

import psycopg2
from psycopg2 import sql

from ilyama_resources.embedded.accounts import Account
from ilyama_resources.embedded.ports import LOOPBACK, free_port_from, is_free
from ilyama_resources.embedded.server import (
    EmbeddedServer,
    EmbeddedServerError,
    Endpoint,
    dies_with_parent,
    wait_until,
)
from ilyama_resources.settings import Settings, private_directory

USER: Final = "ilyama"
DATABASES: Final = ("ilyama",)
_FIRST_PORT: Final = 15432

# After a kill, the last life's shutdown and its shared memory can take a moment to go.
_LAST_LIFE_ENDS_WITHIN_S: Final = 10
_ATTEMPTS: Final = 10
_PAUSE_S: Final = 0.5

_CLEAN_ENVIRONMENT: Final = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}
_CLUSTER_OPTIONS: Final = (
    f"--username={USER}",
    "--auth=scram-sha-256",
    "--encoding=UTF8",
    "--locale=C",
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
    "--no-instructions",
    # The password is long and random: stretching it would only slow every connection down.
    "--set=scram_iterations=1",
)
_SERVER_OPTIONS: Final = {
    "cluster_name": "ilyama",
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
    "wal_level": "logical",
    "max_connections": "100",
    "shared_buffers": "256MB",
    "max_wal_size": "2GB",
    "timezone": "UTC",
    "log_timezone": "UTC",
}


@contextmanager
def postgres_in_use(settings: Settings) -> Iterator[str]:
    """Give the address of the deployment's Postgres: the configured one, else the embedded."""
    if settings.postgres_url is not None:
        yield settings.postgres_url
    else:
        with EmbeddedPostgres(settings).in_use() as url:
            yield url


class EmbeddedPostgres(EmbeddedServer):
    """Postgres on the loopback address, with a password, under an unprivileged account."""

    part: ClassVar[str] = "postgres"
    stop_signal: ClassVar[signal.Signals] = signal.SIGINT
    start_within_s: ClassVar[float] = 300
    stop_within_s: ClassVar[float] = 60

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._directory = settings.postgres_dir
        self._data = self._directory / "data"
        self._password_file = self._directory / "password"
        self._port_file = self._directory / "port"

    def start(self, log: IO[bytes]) -> tuple[subprocess.Popen[bytes], Endpoint]:
        """Start the server, creating its data first where there is none."""
        account = Account.owning(self._data)
        self._prepare_directory(account)
        if not self._data.exists():
            self._create_data(account, log)
        port = self._choose_port()
        process = self._launch_patiently(account, log, port=port)
        self._create_databases(port)
        self._port_file.write_text(str(port))
        return process, Endpoint(url=self._url(port), port=port, pid=process.pid)

    def _prepare_directory(self, account: Account) -> None:
        account.own(private_directory(self._directory))
        if not self._password_file.exists():
            self._password_file.touch(mode=0o600)
            self._password_file.write_text(secrets.token_urlsafe(24))
        account.own(self._password_file)

    def _create_data(self, account: Account, log: IO[bytes]) -> None:
        draft = self._directory / "data.new"
        shutil.rmtree(draft, ignore_errors=True)
        account.own(private_directory(draft))
        directory = account.path_to(draft)
        subprocess.run(
            [
                account.binaries() / "initdb",
                f"--pgdata={directory}",
                f"--pwfile={directory}/../{self._password_file.name}",
                *_CLUSTER_OPTIONS,
            ],
            cwd=draft,
            env=_CLEAN_ENVIRONMENT,
            stdout=log,
            stderr=log,
            check=True,
            **account.process_options,
        )
        draft.rename(self._data)

    def _launch_patiently(
        self, account: Account, log: IO[bytes], *, port: int
    ) -> subprocess.Popen[bytes]:
        for _ in range(_ATTEMPTS):
            process = self._launch(account, log, port=port)
            if wait_until(
                lambda: self._answers(port), process=process, within_s=self.start_within_s
            ):
                return process
            if process.poll() is None:
                raise EmbeddedServerError("Postgres runs but does not answer.")
            time.sleep(_PAUSE_S)
        raise EmbeddedServerError(f"Postgres ended {_ATTEMPTS} times before it answered.")

    def _launch(self, account: Account, log: IO[bytes], *, port: int) -> subprocess.Popen[bytes]:
        options = [f"--{name}={value}" for name, value in _SERVER_OPTIONS.items()]
        return subprocess.Popen(
            [
                account.binaries() / "postgres",
                f"-D{account.path_to(self._data)}",
                f"--port={port}",
                *options,
            ],
            cwd=self._data,
            env=_CLEAN_ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=dies_with_parent(self.stop_signal),
            **account.process_options,
        )

    def _answers(self, port: int) -> bool:
        try:
            self._connect(port).close()
        except psycopg2.OperationalError as error:
            if "authentication failed" in str(error):
                raise EmbeddedServerError(f"{self._password_file} is not the right one.") from error
            return False
        return True

    def _create_databases(self, port: int) -> None:
        with closing(self._connect(port)) as connection, connection.cursor() as cursor:
            connection.autocommit = True
            cursor.execute("SELECT datname FROM pg_database")
            present = {name for (name,) in cursor.fetchall()}
            for name in DATABASES:
                if name not in present:
                    cursor.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))

    def _connect(self, port: int) -> "psycopg2.extensions.connection":
        return psycopg2.connect(
            host=LOOPBACK,
            port=port,
            user=USER,
            password=self._password(),
            dbname="postgres",
            connect_timeout=5,
        )

    def _url(self, port: int) -> str:
        return f"postgresql+psycopg2://{USER}:{self._password()}@{LOOPBACK}:{port}/{DATABASES[0]}"

    def _password(self) -> str:
        return self._password_file.read_text()

    def _choose_port(self) -> int:
        if not self._port_file.exists():
            return free_port_from(_FIRST_PORT)
        remembered = int(self._port_file.read_text())
        if (self._data / "postmaster.pid").exists():
            wait_until(lambda: is_free(remembered), within_s=_LAST_LIFE_ENDS_WITHIN_S)
        return remembered if is_free(remembered) else free_port_from(_FIRST_PORT)
