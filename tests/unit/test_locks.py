"""Somebody who looks whether a lock is held does not keep another from taking it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Thread, Timer

import pytest

from ilyama_resources.embedded import locks
from ilyama_resources.embedded.server import stack_lock
from ilyama_resources.mqtt.holding import sole_holder
from ilyama_resources.settings import Settings
from ilyama_service.stack.supervision import StackRunning, Supervisor

LOOK_S = 0.1


@contextmanager
def a_look_at(path: Path) -> Iterator[None]:
    """Somebody who is just looking, and takes a moment for it."""
    begun, done = Event(), Event()

    def look() -> None:
        with locks.shared(path):
            begun.set()
            done.wait(60)

    looker = Thread(target=look)
    looker.start()
    begun.wait(60)
    Timer(LOOK_S, done.set).start()
    yield
    looker.join()


@pytest.mark.parametrize(
    "taken", [partial(locks.exclusive, wait=False), sole_holder], ids=["a keeper", "landing"]
)
def test_a_lock_that_is_looked_at_is_taken(
    tmp_path: Path, taken: Callable[[Path], AbstractContextManager[None]]
) -> None:
    lock = tmp_path / "lock"
    with a_look_at(lock), taken(lock):
        assert locks.held_exclusively(lock)


def test_a_lock_that_is_held_is_not_taken(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with (
        locks.exclusive(lock),
        pytest.raises(locks.Taken),
        locks.exclusive(lock, wait=False),
    ):
        pass


def test_a_stack_that_is_looked_at_is_started_and_no_second_beside_it(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    settings.make_directories()
    supervisor = Supervisor(settings)
    with a_look_at(stack_lock(settings)):
        process = supervisor.start([], attached=True)
    try:
        with pytest.raises(StackRunning):
            supervisor.start([], attached=True)
    finally:
        process.terminate()
        process.wait(60)
