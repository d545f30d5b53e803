"""`ilyama up` in the foreground: who is stopped when it is asked to end."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from threading import Event, Timer
from typing import cast

import pytest
import typer

from ilyama_resources.settings import Ingest, Settings
from ilyama_service.cli import stack, watched_supervisor
from ilyama_service.stack.status import PartHealth
from ilyama_service.stack.supervision import Supervisor

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _KilledOnce:
    """A supervisor whose first life ends at once, by `first`; the second lasts."""

    running = False

    def __init__(self, first: str) -> None:
        self._first = first
        self.lives: list[subprocess.Popen[bytes]] = []
        self.announced = Event()

    def start(self, parts: object, *, attached: bool) -> subprocess.Popen[bytes]:
        del parts, attached
        script = "sleep 60" if self.lives else self._first
        self.lives.append(subprocess.Popen(["sh", "-c", f"exec {script}"]))
        return self.lives[-1]


KILLED = "sh -c 'kill -9 $$'"


@pytest.fixture
def _own_signals(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(watched_supervisor, "_RESTART_PAUSE_S", 0.0)
    before = [signal.getsignal(number) for number in STOP_SIGNALS]
    yield
    for number, handler in zip(STOP_SIGNALS, before, strict=True):
        signal.signal(number, handler)


def _watched(supervisor: _KilledOnce) -> watched_supervisor.WatchedSupervisor:
    watched = watched_supervisor.WatchedSupervisor(
        cast(Supervisor, supervisor), [], attached=True, before_stop=supervisor.announced.set
    )
    watched.start()
    return watched


@pytest.mark.usefixtures("_own_signals")
def test_a_supervisor_that_was_started_again_is_stopped_too() -> None:
    supervisor = _KilledOnce(KILLED)
    watched = _watched(supervisor)
    asked = Timer(1, os.kill, (os.getpid(), signal.SIGTERM))
    asked.start()
    with pytest.raises(typer.Exit), watched_supervisor.stop_signals():
        watched.stay()
    assert not supervisor.announced.is_set()
    watched.stop()
    assert supervisor.announced.is_set()
    assert [life.poll() for life in supervisor.lives] == [-signal.SIGKILL, -signal.SIGTERM]


@pytest.mark.usefixtures("_own_signals")
def test_one_that_is_killed_before_every_part_is_healthy_is_started_again() -> None:
    supervisor = _KilledOnce(KILLED)
    watched = _watched(supervisor)
    supervisor.lives[0].wait()
    watched.look_after()
    watched.look_after()
    watched.stop()
    assert [life.poll() for life in supervisor.lives] == [-signal.SIGKILL, -signal.SIGTERM]


@pytest.mark.usefixtures("_own_signals")
def test_one_that_cannot_start_is_not_tried_for_ever() -> None:
    supervisor = _KilledOnce("false")
    watched = _watched(supervisor)
    supervisor.lives[0].wait()
    with pytest.raises(watched_supervisor.StackFailed, match="logs supervisor"):
        watched.look_after()
    assert len(supervisor.lives) == 1


@pytest.mark.usefixtures("_own_signals")
@pytest.mark.parametrize(("ingest", "comes_up"), [(Ingest.SENSOR, True), (Ingest.PROCESS, False)])
def test_a_sensor_that_is_switched_off_does_not_keep_the_stack_from_starting(
    ingest: Ingest, comes_up: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only in the UI can it be switched on again; a process that does not land is another thing."""
    healths = [PartHealth("webserver", True), PartHealth("ingest", False, "is switched off")]
    monkeypatch.setattr(stack, "part_healths", lambda *_: healths)
    monkeypatch.setattr(stack, "_LANDS_WITHIN_S", 0.1)
    monkeypatch.setattr(stack, "_HEALTHY_WITHIN_S", 2.0)
    monkeypatch.setattr(stack, "_POLL_S", 0.05)
    watched = _watched(_KilledOnce("sleep 60"))
    settings = Settings(home=tmp_path, ingest=ingest)
    expected = (
        nullcontext()
        if comes_up
        else pytest.raises(watched_supervisor.StackFailed, match="switched off")
    )
    with expected:
        stack.wait_until_healthy(settings, watched)
    watched.stop()
