"""What the set-up tells the person in front of it."""

import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parent.parent.parent

_LINES_SHOWN: Final = 25
_WIDTH: Final = 78
_steps_taken: list[str] = []


class SetupError(Exception):
    """A step cannot be done; the message is a sentence that says what to do."""


@contextmanager
def step(title: str) -> Iterator[None]:
    """Announce a step that takes time, and say how long it took."""
    print(f"==> {title} ...", flush=True)
    _steps_taken.append(title)
    started = time.monotonic()
    yield
    print(f"    done in {time.monotonic() - started:.0f} s", flush=True)


def finished() -> None:
    """Say that all is in place, if there was anything to do."""
    if _steps_taken:
        print("==> Set-up is complete.", flush=True)


def run(command: Sequence[str | Path], *, failure: str) -> None:
    """Run a command; show its current line to a person, and its last ones if it fails."""
    last_lines: deque[str] = deque(maxlen=_LINES_SHOWN)
    with subprocess.Popen(
        command,
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        for line in process.stdout or ():
            last_lines.append(f"    {line.rstrip()}")
            _show_passing(last_lines[-1])
    _show_passing("")
    if process.returncode != 0:
        raise SetupError("\n".join((failure, *last_lines)))


def _show_passing(line: str) -> None:
    if sys.stdout.isatty():
        print(f"\r{line[:_WIDTH]:{_WIDTH}}\r", end="", flush=True)
