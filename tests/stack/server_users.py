"""Users of an embedded server that live in processes of their own and can be killed."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

from ilyama_resources.embedded.server import EmbeddedServer, python_path

_PROGRAM = """
import sys
from ilyama_resources.embedded.keeper import PARTS
from ilyama_resources.settings import load_settings
with PARTS[sys.argv[1]](load_settings()).in_use() as url:
    sys.stdout.write(url + "\\n")
    sys.stdout.flush()
    sys.stdin.read()
"""


@dataclass(frozen=True)
class User:
    process: subprocess.Popen[str]
    url: str

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def leave(self) -> None:
        self.process.communicate()


@contextmanager
def user_of(server: EmbeddedServer) -> Iterator[User]:
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, server.part],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **python_path(), **server.settings.environment()},
    ) as process:
        assert process.stdout is not None
        try:
            yield User(process=process, url=process.stdout.readline().strip())
        finally:
            process.kill()


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
