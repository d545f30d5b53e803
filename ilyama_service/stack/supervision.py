"""The supervisor of a stack: its configuration, its life, and what it says of its parts."""

import hashlib
import os
import pwd
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from configparser import RawConfigParser
from contextlib import closing, contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final, cast
from xmlrpc.client import Fault, ServerProxy

from supervisor.xmlrpc import SupervisorTransport

from ilyama_resources.embedded import locks
from ilyama_resources.embedded.server import (
    dies_with_parent,
    python_path,
    stack_lock,
    supervisor_pid_file,
)
from ilyama_resources.errors import PlatformError
from ilyama_resources.settings import Settings, private_directory
from ilyama_service.stack.parts import Part

_LONGEST_SOCKET_PATH: Final = 90
_FOR_EVER: Final = 1_000_000
_LOG_BYTES: Final = 10 * 1024 * 1024


class StackRunning(PlatformError):
    """A stack is at work on this home already."""


class Supervisor:
    """Starts and stops the parts of one home."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._configuration = settings.run / "supervisor.conf"
        self._lock = stack_lock(settings)

    @property
    def running(self) -> bool:
        """Whether a supervisor is at work on this home."""
        return self._lock.exists() and locks.held_exclusively(self._lock)

    def start(self, parts: Sequence[Part], *, attached: bool) -> subprocess.Popen[bytes]:
        """Start a supervisor that starts the parts; an attached one ends with this process.

        Raises:
            StackRunning: Another one is at work.
        """
        lock = self._locked()
        try:
            self._write_configuration(parts)
            return subprocess.Popen(
                [sys.executable, "-m", "supervisor.supervisord", "-c", str(self._configuration)],
                cwd=self._settings.run,
                env={**os.environ, **python_path(), **self._settings.environment()},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=(lock,),
                preexec_fn=dies_with_parent(signal.SIGTERM) if attached else None,
            )
        finally:
            os.close(lock)

    @contextmanager
    def kept_out(self) -> Iterator[None]:
        """Let no supervisor start for the time of the block.

        Raises:
            StackRunning: One is at work.
        """
        lock = self._locked()
        try:
            yield
        finally:
            os.close(lock)

    def stop(self) -> None:
        """Ask the supervisor to stop all parts in order and to end."""
        with suppress(OSError, Fault, HTTPException), self._connected() as supervisor:
            supervisor.shutdown()

    def stop_part(self, name: str) -> None:
        """Stop one part, and wait until it has ended; nothing if it does not run."""
        with suppress(OSError, Fault, HTTPException), self._connected() as supervisor:
            supervisor.stopProcess(name)

    def states(self) -> dict[str, dict[str, Any]]:
        """What the supervisor says of each part; empty while it does not answer."""
        with suppress(OSError, Fault, HTTPException), self._connected() as supervisor:
            return {part["name"]: part for part in supervisor.getAllProcessInfo()}
        return {}

    def _locked(self) -> int:
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            locks.take_alone(descriptor)
        except locks.Taken as error:
            os.close(descriptor)
            raise StackRunning(
                f"a stack is running on {self._settings.home} already: `ilyama status` shows it, "
                "`ilyama down` stops it."
            ) from error
        return descriptor

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        transport = SupervisorTransport(None, None, f"unix://{self._socket}")
        with closing(transport):
            yield cast(Any, ServerProxy("http://127.0.0.1", transport=transport)).supervisor

    @property
    def _socket(self) -> Path:
        """Where the supervisor listens; the path of a socket must be short."""
        socket = self._settings.run / "supervisor.sock"
        if len(str(socket)) <= _LONGEST_SOCKET_PATH:
            return socket
        name = hashlib.sha256(str(socket).encode()).hexdigest()[:16]
        return private_directory(Path(tempfile.gettempdir()) / f"ilyama-{name}") / "socket"

    def _write_configuration(self, parts: Sequence[Part]) -> None:
        configuration = RawConfigParser()
        configuration.read_dict(self._sections(parts))
        self._configuration.touch(mode=0o600)
        with self._configuration.open("w") as file:
            configuration.write(file)

    def _sections(self, parts: Sequence[Part]) -> dict[str, dict[str, str]]:
        log = self._settings.log
        own = {
            "nodaemon": "true",
            "silent": "true",
            "user": pwd.getpwuid(os.geteuid()).pw_name,
            "umask": "077",
            "pidfile": _escaped(supervisor_pid_file(self._settings)),
            "logfile": _escaped(log / "supervisor.log"),
            "logfile_maxbytes": str(_LOG_BYTES),
            "logfile_backups": "1",
        }
        return {
            "supervisord": own,
            "unix_http_server": {"file": _escaped(self._socket), "chmod": "0600"},
            "rpcinterface:supervisor": {
                "supervisor.rpcinterface_factory": (
                    "supervisor.rpcinterface:make_main_rpcinterface"
                )
            },
            **{f"program:{part.name}": self._program(part, n) for n, part in enumerate(parts)},
        }

    def _program(self, part: Part, place: int) -> dict[str, str]:
        return {
            "command": _escaped(subprocess.list2cmdline(part.command)),
            "directory": _escaped(self._settings.run),
            "priority": str(place),
            "autorestart": "true",
            "startsecs": "3",
            "startretries": str(_FOR_EVER),
            "stopwaitsecs": str(part.stop_within_s),
            "stopasgroup": "true",
            "killasgroup": "true",
            "redirect_stderr": "true",
            "stdout_logfile": _escaped(self._settings.log / f"{part.name}.log"),
            "stdout_logfile_maxbytes": str(_LOG_BYTES),
            "stdout_logfile_backups": "1",
        }


def _escaped(value: object) -> str:
    """A value as the supervisor reads it: it takes a percent sign for a variable."""
    return str(value).replace("%", "%%")
