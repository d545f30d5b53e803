"""The process that starts one embedded server and stops it when its last user has gone.

With `--stay` it is one part of a stack: it runs in the foreground until its supervisor ends it.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import IO, Final

from ilyama_resources.embedded import locks
from ilyama_resources.embedded.broker_server import EmbeddedBroker
from ilyama_resources.embedded.pacing import wait_for_turn
from ilyama_resources.embedded.postgres_server import EmbeddedPostgres
from ilyama_resources.embedded.server import (
    EmbeddedServer,
    EmbeddedServerError,
    belong_to_supervisor,
)
from ilyama_resources.embedded.spark_server import EmbeddedSpark
from ilyama_resources.errors import PlatformError
from ilyama_resources.settings import load_settings

PARTS: Final[dict[str, type[EmbeddedServer]]] = {
    EmbeddedPostgres.part: EmbeddedPostgres,
    EmbeddedSpark.part: EmbeddedSpark,
    EmbeddedBroker.part: EmbeddedBroker,
}


STAY: Final = "--stay"


def main() -> None:
    """Keep the server named on the command line."""
    part, *options = sys.argv[1:]
    server = PARTS[part](load_settings())
    try:
        if STAY in options:
            stay_with(server)
        else:
            keep_while_used(server)
    except PlatformError as error:
        sys.exit(str(error))


def keep_while_used(server: EmbeddedServer) -> None:
    """Leave a process behind that runs the server until nobody uses it."""
    try:
        # Locked before the fork: whoever waits for this process to end then finds a keeper at work.
        with locks.exclusive(server.keeper_lock, wait=False):
            if os.fork() != 0:
                os._exit(0)
            with server.log_file.open("ab") as log:
                keep(server, log, unused=_stop_when_unused)
    except locks.Taken:
        return


def stay_with(server: EmbeddedServer) -> None:
    """Run the server in this process's name until it is told to end: the way of a supervisor."""
    belong_to_supervisor(server.settings)
    signal.signal(signal.SIGTERM, _end)
    wait_for_turn(server.settings, server.part)
    with locks.exclusive(server.keeper_lock):
        keep(server, sys.stdout.buffer)
    raise EmbeddedServerError(f"The embedded {server.part} ended by itself.")


def keep(
    server: EmbeddedServer,
    log: IO[bytes],
    *,
    unused: Callable[[EmbeddedServer, subprocess.Popen[bytes]], None] | None = None,
) -> None:
    """Run the server until it ends, or until `unused` has found it unused and stopped it."""
    server.withdraw()
    process, endpoint = server.start(log)
    try:
        server.announce(endpoint)
        if unused is not None:
            _report_ready()
            threading.Thread(target=unused, args=(server, process), daemon=True).start()
        process.wait()
    finally:
        server.withdraw()
        _stop(server, process)


def _end(signal_number: int, frame: object) -> None:
    del signal_number, frame
    sys.exit(0)


def _report_ready() -> None:
    os.dup2(sys.stdin.fileno(), sys.stdout.fileno())


def _stop_when_unused(server: EmbeddedServer, process: subprocess.Popen[bytes]) -> None:
    # Never released: a new user waits for the end of this process, then starts afresh.
    locks.hold_until_exit(server.users_lock)
    _stop(server, process)


def _stop(server: EmbeddedServer, process: subprocess.Popen[bytes]) -> None:
    process.send_signal(server.stop_signal)
    try:
        process.wait(server.stop_within_s)
    except subprocess.TimeoutExpired:
        process.kill()


if __name__ == "__main__":
    main()
