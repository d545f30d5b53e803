"""`ilyama ui`: the Dagster UI on this platform's records."""

import subprocess
import sys
from pathlib import Path

from ilyama_resources.embedded.ports import LOOPBACK, PortTaken, accepts
from ilyama_resources.embedded.postgres_server import postgres_in_use
from ilyama_resources.postgres import Gateway
from ilyama_resources.settings import REPOSITORY, load_settings
from ilyama_service.cli.consoles import console
from ilyama_service.dagster_home import DagsterHome


def show_interface(*, port: int) -> None:
    """Serve the Dagster UI until Ctrl-C."""
    if accepts(port):
        raise PortTaken(f"port {port} is in use; choose another one with --port")
    settings = load_settings()
    settings.make_directories()
    with postgres_in_use(settings) as url:
        gateway = Gateway(url)
        gateway.migrate()
        DagsterHome(settings).prepare(gateway)
        gateway.close()
        console.print(f"The Dagster UI is on http://{LOOPBACK}:{port}; Ctrl-C ends it.")
        _serve(port)


def _serve(port: int) -> None:
    program = Path(sys.executable).with_name("dagster-webserver")
    workspace = REPOSITORY / "workspace.yaml"
    command = [str(program), "-h", LOOPBACK, "-p", str(port), "-w", str(workspace)]
    server = subprocess.Popen(command, cwd=REPOSITORY)
    try:
        server.wait()
    except KeyboardInterrupt:
        server.terminate()
        server.wait()
