"""All steps of the set-up, in their order; each is instant when done before."""

import fcntl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from deploy.setup import broker, browser, jars, packages, system

_LOCK: Final = Path(".setup.lock")


def take_every_step(*, for_tests: bool) -> None:
    """Install what is missing."""
    with _alone():
        system.ensure_java()
        system.ensure_venv_module()
        packages.ensure_packages()
        jars.ensure_jars()
        broker.ensure_broker()
        if for_tests:
            browser.ensure_browser()


@contextmanager
def _alone() -> Iterator[None]:
    """Wait for another set-up of this clone: two would install into one venv."""
    with _LOCK.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Another set-up is at work here; waiting for it ...", file=sys.stderr)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
