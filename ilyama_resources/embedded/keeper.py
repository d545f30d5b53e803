"""The process that starts one embedded server and stops it when its last user has gone."""

import os
import subprocess
import sys
import threading
from typing import Final

from ilyama_resources.embedded import locks
from ilyama_resources.embedded.broker_server import EmbeddedBroker
from ilyama_resources.embedded.postgres_server import EmbeddedPostgres
from ilyama_resources.embedded.server import EmbeddedServer
from ilyama_resources.embedded.spark_server import EmbeddedSpark
from ilyama_resources.errors import PlatformError
from ilyama_resources.settings import load_settings

PARTS: Final[dict[str, type[EmbeddedServer]]] = {
    EmbeddedPostgres.part: EmbeddedPostgres,
    EmbeddedSpark.part: EmbeddedSpark,
    EmbeddedBroker.part: EmbeddedBroker,
}


def main() -> None:
    """Keep the server named on the command line."""
    server = PARTS[sys.argv[1]](load_settings())
    # Locked before the fork: whoever waits for this process to end then finds a keeper at work.
    with locks.exclusive(server.keeper_lock):
        if os.fork() != 0:
            os._exit(0)
        try:
            keep(server)
        except PlatformError as error:
            sys.exit(str(error))


def keep(server: EmbeddedServer) -> None:
    """Run the server until nobody uses it or it ends by itself."""
    server.withdraw()
    with server.log_file.open("ab") as log:
        process, endpoint = server.start(log)
    try:
        server.announce(endpoint)
        _report_ready()
        threading.Thread(target=_stop_when_unused, args=(server, process), daemon=True).start()
        process.wait()
    finally:
        server.withdraw()


def _report_ready() -> None:
    os.dup2(sys.stdin.fileno(), sys.stdout.fileno())


def _stop_when_unused(server: EmbeddedServer, process: subprocess.Popen[bytes]) -> None:
    # Never released: a new user waits for the end of this process, then starts afresh.
    locks.hold_until_exit(server.users_lock)
    process.send_signal(server.stop_signal)
    try:
        process.wait(server.stop_within_s)
    except subprocess.TimeoutExpired:
        process.kill()


if __name__ == "__main__":
    main()
