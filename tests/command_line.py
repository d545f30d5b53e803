"""The `ilyama` command for tests: a process of its own, forked from one that has loaded the code.

To load Dagster, Spark's client and the platform takes longer than most commands; tests give
hundreds of them.
"""

import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ilyama_resources.settings import REPOSITORY

_LOADED: Final = (
    "ilyama_assets.definitions",
    "ilyama_service.cli.app",
    "ilyama_service.cli.drain",
    "ilyama_service.cli.import_file",
)
_PROCESSES: Final = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(list(_LOADED))


def run_ilyama(
    *words: str, environment: Mapping[str, str], within_s: float
) -> subprocess.CompletedProcess[str]:
    """Run the command line with this environment alone, whatever comes of it."""
    with tempfile.TemporaryDirectory() as directory:
        out, err = Path(directory, "out"), Path(directory, "err")
        process = _PROCESSES.Process(target=_become, args=(words, dict(environment), out, err))
        process.start()
        process.join(within_s)
        if process.is_alive():
            process.kill()
            raise subprocess.TimeoutExpired(words, within_s, out.read_text(), err.read_text())
        code = process.exitcode
        assert code is not None
        return subprocess.CompletedProcess(words, code, out.read_text(), err.read_text())


def _become(words: tuple[str, ...], environment: dict[str, str], out: Path, err: Path) -> None:
    """Be what `python -m ilyama_service.cli` is with these words."""
    for path, stream in ((out, sys.stdout), (err, sys.stderr)):
        with path.open("w") as file:
            os.dup2(file.fileno(), stream.fileno())
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(REPOSITORY)
    sys.argv[1:] = words
    runpy.run_module("ilyama_service.cli", run_name="__main__", alter_sys=True)
