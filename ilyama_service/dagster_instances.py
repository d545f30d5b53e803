"""Dagster instances on the platform's own home."""

from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from dagster import DagsterInstance
from dagster._core.instance import InstanceRef
from dagster_postgres.utils import DagsterPostgresException
from sqlalchemy.exc import DBAPIError

from ilyama_resources.dagster_runs import dead_runs, report_dead, request_ends
from ilyama_resources.postgres import Gateway
from ilyama_service.dagster_home import DagsterHome

_SILENT: Final = {
    "module": "dagster._core.storage.noop_compute_log_manager",
    "class": "NoOpComputeLogManager",
}


def initialise_storage(home: DagsterHome, gateway: Gateway) -> None:
    """Make Dagster's tables before several processes would; bury the runs of its last life."""
    with DagsterInstance.from_config(str(home.directory)) as instance:
        for run_id in dead_runs(instance, gateway, requested_before=datetime.now(UTC)):
            report_dead(instance, run_id)


def request_ends_of_runs(home: DagsterHome) -> None:
    """Tell Dagster that the stack is about to stop the runs at work, if its storage answers."""
    with (
        suppress(DagsterPostgresException, DBAPIError),
        DagsterInstance.from_config(str(home.directory)) as instance,
    ):
        request_ends(instance)


def foreground_instance(home: DagsterHome) -> DagsterInstance:
    """An instance for runs in this process, whose output stays on this terminal."""
    reference = InstanceRef.from_dir(str(home.directory), overrides={"compute_logs": _SILENT})
    return DagsterInstance.from_ref(reference)
