"""A supervisor that a person's terminal stays with, and what asks both to end."""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Final

import typer

from ilyama_resources.embedded.server import wait_until
from ilyama_resources.errors import PlatformError
from ilyama_service.cli.consoles import errors
from ilyama_service.stack.parts import Part
from ilyama_service.stack.supervision import Supervisor

STOPPED_WITHIN_S: Final = 240
# One that cannot start, on a full disk for instance, is not tried as fast as can be.
_RESTART_PAUSE_S: Final = 2.0
_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StackFailed(PlatformError):
    """The stack did not come up, or did not stop."""


class _Stopped(BaseException):
    """Somebody asked this process to end; no code that catches errors may swallow it."""


class WatchedSupervisor:
    """A supervisor that is started again when it is killed, as long as this process watches it."""

    def __init__(
        self,
        supervisor: Supervisor,
        parts: Sequence[Part],
        *,
        attached: bool,
        before_stop: Callable[[], None],
    ) -> None:
        self.supervisor = supervisor
        self._parts = parts
        self._attached = attached
        self._before_stop = before_stop
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; who asks this process to end meanwhile is heard when it has started."""
        with _heard_later():
            self._process = self.supervisor.start(self._parts, attached=self._attached)

    def look_after(self) -> None:
        """Start a killed one again.

        Raises:
            StackFailed: It ended by itself: it was asked to, or cannot use its configuration.
        """
        code = None if self._process is None else self._process.poll()
        if code is None:
            return
        if code == 0:
            raise StackFailed("the stack was stopped while it started.")
        if code > 0:
            raise StackFailed("the supervisor ended: see `ilyama logs supervisor`.")
        self._start_again()

    def stay(self) -> None:
        """Wait for its end; one that died without being asked to is started again."""
        while self._process is not None and self._process.wait() != 0:
            self._start_again()

    def stop(self) -> None:
        """Have it stop every part in order; who asks once more is not heard meanwhile."""
        for number in _STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        if self._process is None:
            return
        errors.print("\nStopping every part in order ...")
        self._before_stop()
        self._process.terminate()
        try:
            self._process.wait(STOPPED_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.supervisor.stop()
            self._process.kill()

    def _start_again(self) -> None:
        errors.print("The supervisor died; starting it again.")
        time.sleep(_RESTART_PAUSE_S)
        wait_until(lambda: not self.supervisor.running, within_s=STOPPED_WITHIN_S)
        self.start()


@contextmanager
def stop_signals() -> Iterator[None]:
    """Turn a request to end into an exception, and the exception into a quiet end."""

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise _Stopped

    for number in _STOP_SIGNALS:
        signal.signal(number, stop)
    try:
        yield
    except _Stopped:
        errors.print("Stopped.")
        raise typer.Exit(0) from None


@contextmanager
def _heard_later() -> Iterator[None]:
    """Let a request to end wait until the block is done: what it starts must be stopped then."""
    asked: list[int] = []
    before = {number: signal.getsignal(number) for number in _STOP_SIGNALS}
    for number in _STOP_SIGNALS:
        signal.signal(number, lambda given, _: asked.append(given))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for given in asked:
            signal.raise_signal(given)
