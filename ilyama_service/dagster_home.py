"""Dagster's own home: its configuration is generated, its storage lies in Postgres."""

import os
from pathlib import Path

import yaml
from dagster import DagsterInstance
from dagster._core.instance import InstanceRef

from ilyama_resources.postgres import Gateway
from ilyama_resources.settings import Settings, private_directory

URL_VARIABLE = "DAGSTER_POSTGRES_URL"
_CONFIGURATION = {
    "storage": {"postgres": {"postgres_url": {"env": URL_VARIABLE}}},
    "telemetry": {"enabled": False},
    "nux": {"enabled": False},
    "sensors": {"use_threads": True, "num_workers": 4},
    "run_coordinator": {
        "module": "dagster._core.run_coordinator",
        "class": "DefaultRunCoordinator",
    },
}
_STATEMENT_TIMEOUT_MS = 60_000
_POOL_RECYCLE_S = 3_600
_SILENT = {
    "module": "dagster._core.storage.noop_compute_log_manager",
    "class": "NoOpComputeLogManager",
}


def prepare_dagster_home(settings: Settings, gateway: Gateway) -> Path:
    """Write Dagster's configuration and point it at its database."""
    home = private_directory(settings.home / "dagster")
    (home / "dagster.yaml").write_text(yaml.safe_dump(_CONFIGURATION, sort_keys=False))
    url = gateway.ensure_database(f"{gateway.database}_dagster")
    os.environ[URL_VARIABLE] = url.replace("postgresql+psycopg2://", "postgresql://")
    return home


def foreground_instance(home: Path) -> DagsterInstance:
    """An instance for runs in this process, whose output stays on this terminal."""
    instance = DagsterInstance.from_ref(
        InstanceRef.from_dir(str(home), overrides={"compute_logs": _SILENT})
    )
    # Its storage otherwise opens a connection for every event it writes.
    instance.optimize_for_webserver(
        statement_timeout=_STATEMENT_TIMEOUT_MS, pool_recycle=_POOL_RECYCLE_S, max_overflow=4
    )
    return instance
