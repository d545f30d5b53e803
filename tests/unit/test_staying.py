"""`ilyama up` in the foreground: who is stopped when it is asked to end."""

import os
import signal
import subprocess
from collections.abc import Iterator
from threading import Timer
from typing import Any, cast

import pytest
import typer

from ilyama_service.cli import stack
from ilyama_service.stack.supervision import Supervisor

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _DyingOnce:
    """A supervisor whose next life lasts; a moment later somebody asks for the end."""

    running = False

    def __init__(self) -> None:
        self.lives: list[subprocess.Popen[bytes]] = []

    def start(self, parts: object, *, attached: bool) -> subprocess.Popen[bytes]:
        del parts, attached
        self.lives.append(subprocess.Popen(["sleep", "60"]))
        Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
        return self.lives[-1]


@pytest.fixture
def _own_signals(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(stack, "_RESTART_PAUSE_S", 0.0)
    before = [signal.getsignal(number) for number in STOP_SIGNALS]
    yield
    for number, handler in zip(STOP_SIGNALS, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.usefixtures("_own_signals")
def test_a_supervisor_that_was_started_again_is_stopped_too() -> None:
    supervisor: Any = _DyingOnce()
    dead = subprocess.Popen(["false"])
    with pytest.raises(typer.Exit), stack.stop_signals():
        stack.stay(cast(Supervisor, supervisor), dead, [])
    assert [life.poll() for life in supervisor.lives] == [-signal.SIGTERM]
