"""The whole platform from one command: messages over MQTT become current values, come what may."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil
import pytest
from dagster import DagsterInstance, DagsterRunStatus, RunsFilter

from ilyama_assets.drains.protocol import DRAIN_LOCK
from ilyama_assets.jobs import intake_job
from ilyama_resources.dagster_runs import AT_WORK, STOPPED
from ilyama_resources.embedded.ports import LOOPBACK
from ilyama_resources.embedded.postgres_server import EmbeddedPostgres, postgres_in_use
from ilyama_resources.postgres import Gateway, GatewayUnavailable
from ilyama_resources.settings import REPOSITORY, Settings
from ilyama_service.dagster_home import HOME_VARIABLE, URL_VARIABLE, DagsterHome
from ilyama_service.dagster_instances import initialise_storage
from tests.running import (
    LOOK_EVERY_S,
    RunningStack,
    processes_of,
    running_stack,
    stack_settings,
)
from tests.waiting import eventually

EPOCH = "01900000-0000-7000-8000-000000000001"
KEY = "readings.value"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    with running_stack(tmp_path_factory.mktemp("stack")) as running:
        yield running


def batch(commit_seq: int, value: float) -> bytes:
    number = (time.time_ns() // 1_000_000) << 80 | 7 << 76 | 2 << 62 | commit_seq
    document: dict[str, Any] = {
        "format_version": 1,
        "capture_strategy": "sqlite_row_batch_v1",
        "batch_id": str(UUID(int=number)),
        "journal_epoch": EPOCH,
        "source_table": "readings",
        "schema_hash": "0" * 64,
        "first_commit_seq": commit_seq,
        "last_commit_seq": commit_seq,
        "rows": [
            {"commit_seq": commit_seq, "op": "update", "pk": {"id": 1}, "row": {"value": value}}
        ],
    }
    return json.dumps(document).encode()


def publish_until_visible(stack: RunningStack, device: str, value: float) -> None:
    """Publish a value, and see it served."""
    seq = time.time_ns() // 1000
    with stack.device(f"publisher-{seq}") as client:
        client.publish(f"acme/{device}/sync/rows/batch", batch(seq, value)).result(timeout=120)
    visible = eventually(
        lambda: stack.current_value(f"acme/{device}", KEY, "1") == value,
        within_s=240,
        every_s=LOOK_EVERY_S,
    )
    assert visible, stack.ilyama("status").stdout


def test_a_published_row_becomes_a_current_value_by_a_run_of_the_sensor(
    stack: RunningStack,
) -> None:
    publish_until_visible(stack, "first", 21.5)
    status = json.loads(stack.ilyama("status", "--json").stdout)
    assert all(part["healthy"] for part in status["parts"])
    assert status["rows_today"] >= 1
    assert status["last_drain"]["drain_id"] >= 1


def test_a_second_stack_on_the_same_home_is_refused_and_the_first_left_alone(
    stack: RunningStack,
) -> None:
    second = stack.ilyama("up", "--detach")
    assert second.returncode == 1
    assert "a stack is running" in second.stderr
    assert second.stderr.count("\n") == 1
    assert stack.is_healthy()


def test_a_port_in_use_is_named_with_its_setting(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = RunningStack(stack_settings(tmp_path, dagster_port=port)).ilyama("up")
    assert refused.returncode == 1
    assert f"port {port} is in use by another program: set ILYAMA_DAGSTER_PORT" in refused.stderr


@pytest.mark.parametrize("part", ["postgres", "broker", "code", "spark"])
def test_a_part_that_dies_comes_back_and_the_rest_goes_on(stack: RunningStack, part: str) -> None:
    came_back = stack.recovers(part, killed=stack.kill(part), within_s=180)
    assert came_back, stack.ilyama("status").stdout
    publish_until_visible(stack, "first", time.time())


def test_logs_are_to_be_had_for_every_part(stack: RunningStack) -> None:
    assert "dagster" in stack.ilyama("logs", "daemon").stdout
    unknown = stack.ilyama("logs", "nothing")
    assert unknown.returncode == 1
    assert "there is no log of 'nothing'" in unknown.stderr


def test_a_running_stack_is_not_reset(stack: RunningStack) -> None:
    refused = stack.ilyama("reset", "--yes")
    assert refused.returncode == 1
    assert "`ilyama down` first" in refused.stderr


def test_a_run_that_is_stopped_with_its_stack_is_canceled_and_is_no_failure(
    stack: RunningStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = DagsterHome(stack.settings)
    for variable in (HOME_VARIABLE, URL_VARIABLE):
        monkeypatch.setenv(variable, "")
    postgres = EmbeddedPostgres(stack.settings).endpoint()
    assert postgres is not None
    home.point_here(postgres.url)
    assert eventually(lambda: not intake_runs(home, *AT_WORK), within_s=240)
    # The lock dies with Postgres, of which the test is no user: it would not stop else.
    with suppress(GatewayUnavailable), Gateway(postgres.url).lock(DRAIN_LOCK):
        run_id = started_run(stack, home)
        stopped = stack.ilyama("down")
    assert stopped.returncode == 0, stopped.stderr
    with postgres_in_use(stack.settings) as url, closing(Gateway(url)) as gateway:
        home.point_here(url)
        initialise_storage(home, gateway)
        with DagsterInstance.from_config(str(home.directory)) as instance:
            told = [entry.message for entry in instance.all_logs(run_id)]
            assert status_in(instance, run_id) is DagsterRunStatus.CANCELED, told
        assert any(STOPPED in message for message in told)
        with gateway.transaction() as tx:
            events = tx.events.newest(limit=1000)
    assert [event for event in events if run_id in event.message] == []


def started_run(stack: RunningStack, home: DagsterHome) -> str:
    """A run that is at work, and can come no further than the lock that the test holds."""
    with stack.device("interrupted") as client:
        topic = "acme/interrupted/sync/rows/batch"
        client.publish(topic, batch(time.time_ns() // 1000, 1.5)).result(timeout=120)
    assert eventually(lambda: bool(intake_runs(home, DagsterRunStatus.STARTED)), within_s=240)
    return intake_runs(home, DagsterRunStatus.STARTED)[0]


def intake_runs(home: DagsterHome, *statuses: DagsterRunStatus) -> Sequence[str]:
    wanted = RunsFilter(job_name=intake_job.name, statuses=statuses)
    with DagsterInstance.from_config(str(home.directory)) as instance:
        return instance.get_run_ids(wanted)


def status_in(instance: DagsterInstance, run_id: str) -> DagsterRunStatus:
    run = instance.get_run_by_id(run_id)
    assert run is not None
    return run.status


MOMENTS: dict[str, Callable[[Settings], bool]] = {
    "before anything runs": lambda settings: settings.run.exists(),
    "with a server": lambda settings: EmbeddedPostgres(settings).endpoint() is not None,
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_ctrl_c_during_the_start_leaves_no_process_behind(tmp_path: Path, moment: str) -> None:
    home = tmp_path / "home"
    stack = RunningStack(stack_settings(home))
    starting = subprocess.Popen(
        [sys.executable, "-m", "ilyama_service.cli", "up"],
        env=stack.environment,
        cwd=REPOSITORY,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert eventually(lambda: MOMENTS[moment](stack.settings))
    starting.send_signal(signal.SIGINT)
    _, told = starting.communicate(timeout=120)
    assert "Traceback" not in told
    assert eventually(lambda: not processes_of(home)), processes_of(home)


def test_a_supervisor_that_is_killed_is_started_again(tmp_path: Path) -> None:
    home = tmp_path / "home"
    stack = RunningStack(stack_settings(home))
    running = subprocess.Popen(
        [sys.executable, "-m", "ilyama_service.cli", "up"],
        env=stack.environment,
        cwd=REPOSITORY,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert stack.becomes_healthy()
        supervisor = int((home / "run" / "supervisor.pid").read_text())
        os.kill(supervisor, signal.SIGKILL)
        assert eventually(lambda: not psutil.pid_exists(supervisor))
        assert stack.becomes_healthy(), stack.ilyama("status").stdout
    finally:
        running.send_signal(signal.SIGTERM)
        running.wait(240)
    assert eventually(lambda: not processes_of(home)), processes_of(home)
