"""Ratio 5: what Dagster adds to the drain of 64 batches.

Both sides drain in one warm process: one has Dagster execute the job, with its events, checks and
report stored in Postgres as those of a run; the other calls the functions of the asset. Beside them
stands a run in a process of its own, launched through the web server and started by the code
server as in a stack: what starting that process costs is paid once for two minutes of drains.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from typing import Any

from dagster import DagsterInstance, DagsterRunStatus
from dagster_graphql import DagsterGraphQLClient

from benchmarks.correctness import assert_platform_is_right
from benchmarks.measuring import Figure, Measured, Work, interleaved, timed
from benchmarks.workbench import Workbench, land
from benchmarks.workloads import ROWS, Fleet
from ilyama_assets.definitions import defs
from ilyama_assets.drains.protocol import Intake
from ilyama_assets.intake import IntakeConfig, results_of, take_in
from ilyama_assets.partitions import ensure_days
from ilyama_protocol.moments import day_of
from ilyama_resources.embedded.ports import LOOPBACK, accepts, free_port
from ilyama_resources.embedded.server import dies_with_parent, wait_until
from ilyama_resources.settings import REPOSITORY
from ilyama_service.dagster_home import HOME_VARIABLE, URL_VARIABLE, DagsterHome
from ilyama_service.dagster_instances import foreground_instance
from ilyama_service.stack.launcher import LAUNCHERS
from tests.platform import Platform
from tests.streams.identifiers import START_US

BATCHES = 64
FEW_ROWS = 256
SAMPLED = 1
STARTS_WITHIN_S = 120
_TO_THE_END: dict[str, Any] = {
    "idle_s": 0.0,
    "max_s": 1e9,
    "apart_s": 0.0,
    "replay_when_idle": False,
}
_RUN_CONFIG: dict[str, Any] = {"ops": {"intake": {"config": _TO_THE_END}}}
_POLL_S = 0.05
DAY: date = day_of(START_US)


def measure(bench: Workbench) -> Measured:
    """Drain 64 batches by a run and by a call, by turns."""
    with (
        bench.platform() as platform,
        platform.intake() as intake,
        _dagster(platform) as dagster,
    ):
        sides = _Sides(intake, Fleet(5, devices=BATCHES), dagster)
        launched = sides.prove(platform)
        measured = interleaved(sides.by_job, sides.by_call, rounds=bench.scale.long_drain_rounds)
        nothing = timed(dagster.run)
    return measured.with_figures(
        Figure("a run in a process of its own that finds nothing to do", nothing, "s"),
        Figure("a run in a process of its own over 64 batches, once", launched, "s"),
    )


class _Dagster:
    """Dagster's servers, as a stack runs them."""

    def __init__(self, instance: DagsterInstance, port: int) -> None:
        self.instance = instance
        self._client = DagsterGraphQLClient(LOOPBACK, port_number=port)

    def run(self) -> None:
        """Launch a run of the intake job and wait until it is done."""
        run_id = self._client.submit_job_execution(
            "intake_job", run_config=_RUN_CONFIG, tags={"dagster/partition": DAY.isoformat()}
        )
        while (run := self.instance.get_run_by_id(run_id)) is None or not run.is_finished:
            time.sleep(_POLL_S)
        assert run.status is DagsterRunStatus.SUCCESS, run.status


class _Sides:
    def __init__(self, intake: Intake, fleet: Fleet, dagster: _Dagster) -> None:
        self._intake = intake
        self._fleet = fleet
        self._dagster = dagster
        self._job = defs.resolve_job_def("intake_job")

    def by_call(self, _: int) -> Work:
        """The same functions called with 64 batches waiting."""
        land(self._intake, self._fleet.batches(BATCHES))
        return self._call

    def by_job(self, _: int) -> Work:
        """The job executed here with 64 batches waiting."""
        land(self._intake, self._fleet.batches(BATCHES))
        return self._execute

    def _execute(self) -> None:
        self._job.execute_in_process(
            instance=self._dagster.instance,
            partition_key=DAY.isoformat(),
            run_config=_RUN_CONFIG | _QUIET,
        )

    def _call(self) -> None:
        self._intake.prepare()
        run = take_in(self._intake, DAY, IntakeConfig(**_TO_THE_END))
        list(results_of(run, self._intake))

    def prove(self, platform: Platform) -> float:
        """Compare what the job, a call and a run have stored with the oracle.

        Returns the seconds of the run, by then on a warm Spark.
        """
        ways = {self._execute: FEW_ROWS, self._call: FEW_ROWS, self._dagster.run: ROWS}
        events = []
        for way, rows in ways.items():
            sent = self._fleet.batches(BATCHES, rows=rows)
            land(self._intake, sent)
            seconds = timed(way)
            events += sent
        sampled = {self._fleet.device_id(number) for number in range(SAMPLED)}
        assert_platform_is_right(platform, events, devices=sampled)
        return seconds


_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@contextmanager
def _dagster(platform: Platform) -> Iterator[_Dagster]:
    """The code server and the web server of a stack, for one platform."""
    port = free_port()
    settings = platform.settings.model_copy(update={"dagster_port": port})
    environment = platform.environment(ILYAMA_DAGSTER_PORT=str(port))
    with (
        _environment(environment),
        _process(LAUNCHERS["code"](settings), DagsterHome(settings).code_port),
        _process(LAUNCHERS["webserver"](settings), lambda: port),
        foreground_instance(DagsterHome(settings)) as instance,
    ):
        ensure_days(instance, [DAY])
        yield _Dagster(instance, port)


@contextmanager
def _process(command: list[str], port: Callable[[], int | None]) -> Iterator[None]:
    process = subprocess.Popen(
        command,
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=dies_with_parent(signal.SIGTERM),
    )
    try:
        assert wait_until(lambda: accepts(port() or 0), within_s=STARTS_WITHIN_S, process=process)
        yield
    finally:
        process.terminate()
        process.wait(60)


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """What a child process must see; afterwards everything is as before."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in {*variables, HOME_VARIABLE, URL_VARIABLE}:
            os.environ.pop(name, None)
        os.environ.update(before)
