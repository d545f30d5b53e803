"""What the embedded servers have in common, seen by their users and by their keeper.

Errors:
    EmbeddedServerError: a server could not be started; carries the end of its log.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, ClassVar, Final

import msgspec

from ilyama_resources.embedded import locks
from ilyama_resources.errors import PlatformError
from ilyama_resources.settings import REPOSITORY, Settings

_LOG_LINES_SHOWN: Final = 20
_LOG_KEPT_BYTES: Final = 10 * 1024 * 1024
_KEEPER_GRACE_S: Final = 30
_POLL_S: Final = 0.05
_PR_SET_PDEATHSIG: Final = 1


class EmbeddedServerError(PlatformError):
    """An embedded server could not be started."""


class Endpoint(msgspec.Struct, frozen=True):
    """Where a running server answers."""

    url: str
    port: int
    pid: int


class EmbeddedServer(ABC):
    """A server of one home that lives exactly as long as somebody uses it."""

    part: ClassVar[str]
    stop_signal: ClassVar[signal.Signals]
    start_within_s: ClassVar[float]
    stop_within_s: ClassVar[float]

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.users_lock = self._run_file("users")
        self.keeper_lock = self._run_file("keeper")
        self.log_file = settings.log / f"{self.part}.log"

    @abstractmethod
    def start(self, log: IO[bytes]) -> tuple[subprocess.Popen[bytes], Endpoint]:
        """Start the server and wait until it answers; called by its keeper alone."""

    @contextmanager
    def in_use(self) -> Iterator[str]:
        """Keep the server running for the time of the block, and give its address.

        Raises:
            EmbeddedServerError: it does not start.
        """
        self.settings.make_directories()
        with locks.shared(self.users_lock):
            yield self.ensure_running()

    def ensure_running(self) -> str:
        """Start the server anew if it has died under its users; they alone may call this."""
        endpoint = self.endpoint()
        if endpoint is None:
            with locks.exclusive(self._run_file("start")):
                endpoint = self.awaited() or self._started()
        return endpoint.url

    def _started(self) -> Endpoint:
        if self.is_missing_in_stack():
            raise EmbeddedServerError(
                f"The {self.part} of the stack does not start; see `ilyama logs {self.part}`."
            )
        return self._spawn_keeper()

    def awaited(self) -> Endpoint | None:
        """Where the server answers, once whoever is starting it is done; None when nobody is."""
        wait_until(
            lambda: self.endpoint() is not None or not self._is_kept(),
            within_s=self.start_within_s,
        )
        return self.endpoint()

    def _is_kept(self) -> bool:
        """Whether a keeper is at work, or a stack runs whose supervisor will start one."""
        locked = (self.keeper_lock, stack_lock(self.settings))
        return any(path.exists() and locks.held_exclusively(path) for path in locked)

    def is_missing_in_stack(self) -> bool:
        """Whether a stack runs whose supervisor should have started the server, and it is away."""
        lock = stack_lock(self.settings)
        return self.endpoint() is None and lock.exists() and locks.held_exclusively(lock)

    def endpoint(self) -> Endpoint | None:
        """Tell where the server answers, or nothing while it does not run."""
        if not (self.keeper_lock.exists() and locks.held_exclusively(self.keeper_lock)):
            return None
        try:
            return msgspec.json.decode(self._endpoint_file.read_bytes(), type=Endpoint)
        except FileNotFoundError:
            return None

    def announce(self, endpoint: Endpoint) -> None:
        """Let users know where the server answers."""
        draft = self._run_file("endpoint.new")
        draft.touch(mode=0o600)
        draft.write_bytes(msgspec.json.encode(endpoint))
        draft.replace(self._endpoint_file)

    def withdraw(self) -> None:
        """Let users know that the server is gone."""
        self._endpoint_file.unlink(missing_ok=True)

    def _spawn_keeper(self) -> Endpoint:
        _rotate(self.log_file)
        log_start = self.log_file.stat().st_size if self.log_file.exists() else 0
        with self.log_file.open("ab") as log, suppress(subprocess.TimeoutExpired):
            self._run_keeper_until_ready(log)
        endpoint = self.awaited()
        if endpoint is None:
            raise EmbeddedServerError(self._failure(log_start))
        return endpoint

    def _run_keeper_until_ready(self, log: IO[bytes]) -> None:
        # The keeper forks; its pipe closes when the server answers or the attempt has failed.
        subprocess.run(
            [sys.executable, "-m", "ilyama_resources.embedded.keeper", self.part],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=self.settings.run,
            env={**os.environ, **python_path(), **self.settings.environment()},
            start_new_session=True,
            timeout=self.start_within_s + _KEEPER_GRACE_S,
            check=False,
        )

    def _failure(self, log_start: int) -> str:
        with self.log_file.open("rb") as log:
            log.seek(log_start)
            lines = log.read().decode(errors="replace").splitlines()
        tail = "\n".join(f"    {line}" for line in lines[-_LOG_LINES_SHOWN:])
        return f"The embedded {self.part} did not start. The end of {self.log_file}:\n{tail}"

    @property
    def _endpoint_file(self) -> Path:
        return self._run_file("endpoint")

    def _run_file(self, suffix: str) -> Path:
        return self.settings.run / f"{self.part}.{suffix}"


def stack_lock(settings: Settings) -> Path:
    """The file that the supervisor of a running stack holds alone for as long as it lives."""
    return settings.run / "stack.lock"


def python_path() -> dict[str, str]:
    """Put the code of this platform on the path of a child's Python."""
    inherited = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(REPOSITORY), inherited)))}


def wait_until(
    condition: Callable[[], bool],
    *,
    within_s: float,
    process: subprocess.Popen[bytes] | None = None,
) -> bool:
    """Tell whether `condition` comes true in time and while the process, if given, runs."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline and (process is None or process.poll() is None):
        if condition():
            return True
        time.sleep(_POLL_S)
    return False


def dies_with_parent(signal_number: signal.Signals) -> Callable[[], None]:
    """Make a `preexec_fn` after which the kernel signals the child when its parent dies.

    It also lets the child hear every signal: what a parent ignores, as `nohup` and a shell's
    background jobs do, its children would ignore too, and nobody could stop them.
    """
    libc = ctypes.CDLL(None)

    def prepare() -> None:
        for ignored in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(ignored, signal.SIG_DFL)
        libc.prctl(_PR_SET_PDEATHSIG, int(signal_number))

    return prepare


def belong_to_supervisor(settings: Settings) -> None:
    """End with the supervisor that started this process, even if it has died already."""
    dies_with_parent(signal.SIGTERM)()
    pid_file = supervisor_pid_file(settings)
    if not pid_file.exists() or int(pid_file.read_text()) != os.getppid():
        sys.exit("The supervisor that started this part has gone.")


def supervisor_pid_file(settings: Settings) -> Path:
    """Where a supervisor notes its process before it starts any part."""
    return settings.run / "supervisor.pid"


def _rotate(log_file: Path) -> None:
    if log_file.exists() and log_file.stat().st_size > _LOG_KEPT_BYTES:
        log_file.replace(log_file.with_suffix(".log.1"))
