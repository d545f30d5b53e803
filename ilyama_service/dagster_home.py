"""Dagster's own home: its configuration is generated, its storage lies in Postgres.

Nothing here imports Dagster: whoever only points a process at the home need not wait for that.
"""

import os
from pathlib import Path
from typing import Any, Final

import yaml
from sqlalchemy.engine import URL, make_url

from ilyama_resources.embedded.ports import LOOPBACK, free_port_from, is_free
from ilyama_resources.postgres import Gateway
from ilyama_resources.settings import Settings, private_directory

URL_VARIABLE: Final = "DAGSTER_POSTGRES_URL"
HOME_VARIABLE: Final = "DAGSTER_HOME"
_BATCH_VARIABLE: Final = "DAGSTER_EVENT_BATCH_SIZE"
_MOST_EVENTS_TOGETHER: Final = "1000"
_FIRST_CODE_PORT: Final = 14000
_NOT_FORCED_TO_DISK: Final = "-c synchronous_commit=off"
"""A crash of the machine may cost Dagster its last events: the records of drains do not rest on
them, and a run stores dozens."""


def _stored_by(module: str, name: str) -> dict[str, Any]:
    config = {"postgres_url": {"env": URL_VARIABLE}}
    return {"module": module, "class": name, "config": config}


_CONFIGURATION: Final[dict[str, Any]] = {
    "event_log_storage": _stored_by("ilyama_service.dagster_storage", "RememberingEventLog"),
    "run_storage": _stored_by("ilyama_service.dagster_storage", "RememberingRuns"),
    "schedule_storage": _stored_by("ilyama_service.dagster_storage", "LastingSchedules"),
    "telemetry": {"enabled": False},
    "nux": {"enabled": False},
    "sensors": {"use_threads": True, "num_workers": 4},
    # Sensors tick every few seconds: what they skipped is of no use for long.
    "retention": {"sensor": {"purge_after_days": {"skipped": 1, "success": 7, "failure": 14}}},
    "run_coordinator": {
        "module": "dagster._core.run_coordinator",
        "class": "DefaultRunCoordinator",
    },
}


class DagsterHome:
    """The directory from which Dagster's processes learn everything."""

    def __init__(self, settings: Settings) -> None:
        self.directory = settings.home / "dagster"
        self._code_port_file = self.directory / "code-port"
        self.workspace = self.directory / "workspace.yaml"
        """Points at the code server of a stack."""

    def prepare(self, gateway: Gateway) -> None:
        """Write the configuration, make the database, and point this process at both."""
        private_directory(self.directory)
        _replace(self.directory / "dagster.yaml", yaml.safe_dump(_CONFIGURATION, sort_keys=False))
        gateway.ensure_database(_database_beside(gateway.url).database or "")
        self.point_here(gateway.url)

    def point_here(self, postgres_url: str) -> None:
        """Let this process, and whatever it becomes or starts, find the home."""
        url = _database_beside(postgres_url).set(drivername="postgresql")
        url = url.update_query_dict({"options": _NOT_FORCED_TO_DISK})
        os.environ[URL_VARIABLE] = url.render_as_string(hide_password=False)
        os.environ[HOME_VARIABLE] = str(self.directory)
        os.environ[_BATCH_VARIABLE] = _MOST_EVENTS_TOGETHER

    def code_port(self) -> int | None:
        """Where the code server of a stack listens, if one was ever started."""
        try:
            return int(self._code_port_file.read_text())
        except FileNotFoundError:
            return None

    def choose_code_port(self) -> int:
        """Choose where the code server listens, its last port if that is free, and tell others."""
        last = self.code_port()
        port = last if last is not None and is_free(last) else free_port_from(_FIRST_CODE_PORT)
        server = {"host": LOOPBACK, "port": port, "location_name": "ilyama"}
        _replace(self.workspace, yaml.safe_dump({"load_from": [{"grpc_server": server}]}))
        _replace(self._code_port_file, str(port))
        return port


def _database_beside(postgres_url: str) -> URL:
    """Dagster's database lies beside that of the records."""
    url = make_url(postgres_url)
    return url.set(database=f"{url.database}_dagster")


def _replace(path: Path, text: str) -> None:
    """Write a file that others may be reading."""
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_text(text)
    draft.replace(path)
