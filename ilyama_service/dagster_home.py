"""Dagster's own home: its configuration is generated, its storage lies in Postgres."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import yaml
from dagster import DagsterInstance
from dagster._core.instance import InstanceRef

from ilyama_resources.dagster_runs import dead_runs, report_dead
from ilyama_resources.embedded.ports import LOOPBACK, free_port
from ilyama_resources.postgres import Gateway
from ilyama_resources.settings import Settings, private_directory

URL_VARIABLE: Final = "DAGSTER_POSTGRES_URL"
HOME_VARIABLE: Final = "DAGSTER_HOME"
_CONFIGURATION: Final[dict[str, Any]] = {
    "storage": {"postgres": {"postgres_url": {"env": URL_VARIABLE}}},
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
_STATEMENT_TIMEOUT_MS: Final = 60_000
_POOL_RECYCLE_S: Final = 3_600
_SILENT: Final = {
    "module": "dagster._core.storage.noop_compute_log_manager",
    "class": "NoOpComputeLogManager",
}


class DagsterHome:
    """The directory from which Dagster's processes learn everything."""

    def __init__(self, settings: Settings) -> None:
        self._directory = settings.home / "dagster"
        self._code_port_file = self._directory / "code-port"
        self.workspace = self._directory / "workspace.yaml"
        """Points at the code server of a stack."""

    def prepare(self, gateway: Gateway) -> Path:
        """Write the configuration, and point this process and its children at the home."""
        private_directory(self._directory)
        _replace(self._directory / "dagster.yaml", yaml.safe_dump(_CONFIGURATION, sort_keys=False))
        url = gateway.ensure_database(f"{gateway.database}_dagster")
        os.environ[URL_VARIABLE] = url.replace("postgresql+psycopg2://", "postgresql://")
        os.environ[HOME_VARIABLE] = str(self._directory)
        return self._directory

    def initialise_storage(self, gateway: Gateway) -> None:
        """Make Dagster's tables before several processes would; bury runs of the last life."""
        with DagsterInstance.from_config(str(self._directory)) as instance:
            for run_id in dead_runs(instance, gateway, requested_before=datetime.now(UTC)):
                report_dead(instance, run_id)

    def foreground_instance(self) -> DagsterInstance:
        """An instance for runs in this process, whose output stays on this terminal."""
        instance = DagsterInstance.from_ref(
            InstanceRef.from_dir(str(self._directory), overrides={"compute_logs": _SILENT})
        )
        # Its storage otherwise opens a connection for every event it writes.
        instance.optimize_for_webserver(
            statement_timeout=_STATEMENT_TIMEOUT_MS, pool_recycle=_POOL_RECYCLE_S, max_overflow=4
        )
        return instance

    def code_port(self) -> int | None:
        """Where the code server of a stack listens, if one was ever started."""
        try:
            return int(self._code_port_file.read_text())
        except FileNotFoundError:
            return None

    def choose_code_port(self) -> int:
        """Choose where the code server listens, its last port if that is free, and tell others."""
        port = free_port(preferred=self.code_port())
        server = {"host": LOOPBACK, "port": port, "location_name": "ilyama"}
        _replace(self.workspace, yaml.safe_dump({"load_from": [{"grpc_server": server}]}))
        _replace(self._code_port_file, str(port))
        return port


def _replace(path: Path, text: str) -> None:
    """Write a file that others may be reading."""
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_text(text)
    draft.replace(path)
