"""A part that cannot start is tried again at an even pace, however long that goes on."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ilyama_resources.embedded import pacing
from ilyama_resources.embedded.keeper import STAY
from ilyama_resources.embedded.pacing import STARTS_APART_S, wait_for_turn
from ilyama_resources.embedded.ports import LOOPBACK, free_port
from ilyama_resources.embedded.server import supervisor_pid_file
from ilyama_resources.settings import REPOSITORY, Settings

APART_S = 0.3
KEEPER = "ilyama_resources.embedded.keeper"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(pacing, "STARTS_APART_S", APART_S)
    return Settings(home=tmp_path)


def waited(settings: Settings, part: str = "code") -> bool:
    before = time.monotonic()
    wait_for_turn(settings, part)
    return time.monotonic() - before > APART_S / 2


def started(settings: Settings, *, ago_s: float) -> None:
    moment = time.time() - ago_s
    os.utime(settings.run / "code.started", (moment, moment))


def test_only_a_start_soon_after_the_last_one_waits(settings: Settings) -> None:
    assert not waited(settings)
    assert waited(settings)
    assert not waited(settings, "api")
    started(settings, ago_s=APART_S)
    assert not waited(settings)


def test_a_clock_that_was_set_back_does_not_keep_a_part_waiting(settings: Settings) -> None:
    assert not waited(settings)
    started(settings, ago_s=-3600)
    assert not waited(settings)


def test_a_part_that_dies_at_once_is_not_started_at_once_again(tmp_path: Path) -> None:
    url = f"postgresql://u:p@{LOOPBACK}:{free_port()}/d"
    settings = Settings(home=tmp_path, postgres_url=url)
    settings.make_directories()
    supervisor_pid_file(settings).write_text(f"{os.getpid()}\n")
    starts = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-m", "ilyama_service.stack.launcher", "api"],
            env=os.environ | settings.environment(),
            cwd=REPOSITORY,
            timeout=60,
            check=False,
        )
        assert done.returncode == 1
        starts.append((settings.run / "api.started").stat().st_mtime)
    # A tick of the clock of the file system less.
    assert starts[1] - starts[0] > STARTS_APART_S - 0.1


def test_a_part_whose_supervisor_has_died_meanwhile_does_not_start(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    settings.make_directories()
    supervisor_pid_file(settings).write_text(f"{os.getppid()}\n")
    for command in (["ilyama_service.stack.launcher", "api"], [KEEPER, "postgres", STAY]):
        done = subprocess.run(
            [sys.executable, "-m", *command],
            env=os.environ | settings.environment(),
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr) == (
            1,
            "The supervisor that started this part has gone.\n",
        )
