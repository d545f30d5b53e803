"""Ratio 5: what Dagster adds to the drain of 64 batches.

Both sides drain in one warm process: one has Dagster execute the job, with its events, checks and
report stored in Postgres as those of a run; the other calls the functions of the asset, on records
that it opens itself as the resource of a run does. Whoever has the time sees beside them a run in a
process of its own, launched through the web server and started by the code server as in a stack:
its start is paid once for two minutes of drains.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
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
from ilyama_resources.postgres import Gateway
from ilyama_resources.settings import REPOSITORY
from ilyama_service.dagster_home import HOME_VARIABLE, URL_VARIABLE, DagsterHome
from ilyama_service.dagster_instances import foreground_instance, initialise_storage
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
    with bench.platform() as platform, platform.intake() as intake, _home(platform) as instance:
        sides = _Sides(intake, Fleet(5, devices=BATCHES), instance)
        sides.prove(platform)
        measured = interleaved(sides.by_job, sides.by_call, rounds=bench.scale.long_drain_rounds)
        if bench.scale.thorough:
            measured = measured.with_figures(*_launched(platform, sides, instance))
    return measured


def _launched(platform: Platform, sides: _Sides, instance: DagsterInstance) -> list[Figure]:
    """What runs take that have a process of their own."""
    with _servers(platform) as port:
        dagster = _Dagster(instance, port)
        busy = timed(sides.waiting(dagster.run))
        idle = timed(dagster.run)
    return [
        Figure("a run in a process of its own that finds nothing to do", idle, "s"),
        Figure("a run in a process of its own over 64 batches, once", busy, "s"),
    ]


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
    def __init__(self, intake: Intake, fleet: Fleet, instance: DagsterInstance) -> None:
        self._intake = intake
        self._fleet = fleet
        self._instance = instance
        self._job = defs.resolve_job_def("intake_job")

    def by_call(self, _: int) -> Work:
        """The same functions called with 64 batches waiting."""
        return self.waiting(self._call)

    def by_job(self, _: int) -> Work:
        """The job executed here with 64 batches waiting."""
        return self.waiting(self._execute)

    def waiting(self, work: Work) -> Work:
        """Some work, with 64 batches waiting for it."""
        land(self._intake, self._fleet.batches(BATCHES))
        return work

    def prove(self, platform: Platform) -> None:
        """Compare what the job and a call have stored with the oracle.

        The job drains as much as a round does: the first time, all current values are new.
        """
        events = []
        for way, rows in ((self._execute, ROWS), (self._call, FEW_ROWS)):
            sent = self._fleet.batches(BATCHES, rows=rows)
            land(self._intake, sent)
            way()
            events += sent
        sampled = {self._fleet.device_id(number) for number in range(SAMPLED)}
        assert_platform_is_right(platform, events, devices=sampled)

    def _execute(self) -> None:
        self._job.execute_in_process(
            instance=self._instance,
            partition_key=DAY.isoformat(),
            run_config=_RUN_CONFIG | _QUIET,
        )

    def _call(self) -> None:
        with closing(Gateway(self._intake.gateway.url)) as gateway:
            gateway.migrate()
            parts = replace(self._intake, gateway=gateway)
            parts.prepare()
            run = take_in(parts, DAY, IntakeConfig(**_TO_THE_END))
            list(results_of(run, parts))


_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@contextmanager
def _home(platform: Platform) -> Iterator[DagsterInstance]:
    """Dagster's storage in Postgres, as a run finds it."""
    home = DagsterHome(platform.settings)
    with _environment(platform.environment()):
        home.prepare(platform.gateway)
        initialise_storage(home, platform.gateway)
        with foreground_instance(home) as instance:
            ensure_days(instance, [DAY])
            yield instance


@contextmanager
def _servers(platform: Platform) -> Iterator[int]:
    """The code server and the web server of a stack; where the latter listens."""
    port = free_port()
    settings = platform.settings.model_copy(update={"dagster_port": port})
    with (
        _environment(platform.environment(ILYAMA_DAGSTER_PORT=str(port))),
        _process(LAUNCHERS["code"](settings), DagsterHome(settings).code_port),
        _process(LAUNCHERS["webserver"](settings), lambda: port),
    ):
        yield port


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
