"""A simulated fleet on the real broker, landed and drained, is judged by its own record."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from deltalake import DeltaTable, write_deltalake

from ilyama_protocol.governance.policies import FirstSchema
from ilyama_resources.embedded.broker_server import EmbeddedBroker
from ilyama_resources.embedded.ports import free_port
from ilyama_resources.mqtt.subscriber import MqttSubscriber
from ilyama_resources.settings import REPOSITORY, Settings
from ilyama_service.simulator.expectations import Expectations
from ilyama_service.simulator.record import find_record
from ilyama_service.simulator.reports import Report
from ilyama_service.simulator.scenarios.catalog import SCENARIOS
from ilyama_service.simulator.verification import Verification
from tests.platform import Platform
from tests.waiting import eventually

FLEET = ("--devices", "6", "--rate", "300", "--misbehave", "0.4", "--json")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    home = tmp_path_factory.mktemp("broker")
    server = EmbeddedBroker(Settings(home=home, broker_port=free_port()))
    with server.in_use():
        yield server


class Simulation:
    """A platform with a broker, and the ways to use the simulator on it."""

    def __init__(self, platform: Platform, broker_url: str, **policies: Any) -> None:
        self.own = {"broker_url": broker_url, "ingest_client_id": f"test-{uuid4().hex[:12]}"}
        self.settings = platform.settings.model_copy(update=self.own | policies)
        self.platform = Platform(self.settings, platform.gateway)
        self.broker_url = broker_url

    def run(self, *words: str) -> dict[str, Any]:
        summary: dict[str, Any] = json.loads(self.platform.ilyama("simulate", *FLEET, *words))
        return summary

    def start(self, *words: str) -> subprocess.Popen[str]:
        return self._start(*FLEET, *words)

    def play(self, names: list[str]) -> subprocess.Popen[str]:
        options = [word for name in names for word in ("--scenario", name)]
        return self._start(*options, "--wait", "200", "--json")

    def _start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "ilyama_service.cli", "simulate", *words],
            env=self.platform.environment(),
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            text=True,
        )

    def land(self, messages: int) -> None:
        subscriber = MqttSubscriber(self.settings, self.broker_url, self.platform.gateway)
        with subscriber.session() as session:
            report = session.land_for(60, until=lambda report: report.messages >= messages)
        assert report.messages >= messages

    def drain(self) -> None:
        with self.platform.intake() as intake, intake.alone():
            while intake.drain() is not None:
                pass

    def verify(self) -> tuple[int, dict[str, Any]]:
        """By the command line."""
        done = self.platform.try_ilyama("simulate", "--verify", "--wait", "0", "--json")
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)

    def report(self, run: str, *, warehouse: Path | None = None) -> Report:
        """In this process."""
        expected = Expectations.read(find_record(self.settings, run))
        tables = warehouse or self.settings.warehouse
        return Verification(expected, tables, self.platform.gateway).compare()

    def runs(self) -> list[str]:
        return sorted(path.stem for path in (self.settings.home / "simulator").glob("*.jsonl"))

    def record_lines(self) -> int:
        return len(find_record(self.settings, None).read_bytes().splitlines())


@pytest.fixture
def simulation(platform: Platform, broker: EmbeddedBroker) -> Simulation:
    return Simulation(platform, broker.ensure_running())


def test_a_run_is_found_whole_and_every_tampering_is_noticed(
    simulation: Simulation, tmp_path: Path
) -> None:
    summary = simulation.run("--messages", "500", "--telemetry", "0.2")
    assert (summary["published"], summary["acknowledged"]) == (500, 500)
    code, early = simulation.verify()
    assert (code, early["messages"]["lost"]) == (1, 500)

    simulation.land(500)
    simulation.platform.drain()
    code, report = simulation.verify()
    assert code == 0, report
    assert report["messages"]["visible"] == 500
    assert report["messages"]["to_be_rejected"] > 0
    assert report["rows"]["visible"] == report["rows"]["expected"] > 1000
    assert report["values"]["compared"] > 300
    assert report["values"]["undecided"] == 0

    for tamper, where in TAMPERINGS.items():
        copied = tmp_path / tamper.__name__
        shutil.copytree(simulation.settings.warehouse, copied)
        tamper(copied)
        found = simulation.report(summary["run"], warehouse=copied)
        assert not found.is_clean
        assert getattr(getattr(found, where[0]), where[1]) > 0, found


def _lose_a_row(warehouse: Path) -> None:
    changes = DeltaTable(warehouse / "row_changes")
    changes.delete("commit_seq = 3 AND source_table = 'readings'")


def _double_a_row(warehouse: Path) -> None:
    changes = DeltaTable(warehouse / "row_changes").to_pyarrow_table()
    write_deltalake(warehouse / "row_changes", changes.slice(5, 1), mode="append")


def _lose_a_message(warehouse: Path) -> None:
    ledger = DeltaTable(warehouse / "batch_ledger")
    [first] = ledger.to_pyarrow_table(columns=["payload_sha256"]).slice(0, 1).to_pylist()
    ledger.delete(f"payload_sha256 = '{first['payload_sha256']}'")


TAMPERINGS = {
    _lose_a_row: ("rows", "lost"),
    _double_a_row: ("rows", "doubled"),
    _lose_a_message: ("messages", "lost"),
}


def test_runs_of_the_same_devices_do_not_collide_and_the_same_seed_is_a_redelivery(
    simulation: Simulation,
) -> None:
    runs = [
        simulation.run("--messages", "120", *seed)["run"]
        for seed in ((), ("--seed", "5"), ("--seed", "5"), ())
    ]
    simulation.land(480)
    simulation.drain()
    reports = [simulation.report(run) for run in runs]
    assert [report.is_clean for report in reports] == [True] * 4
    assert [report.values.compared > 0 for report in reports] == [False, False, False, True]
    lines = simulation.platform.rows("batch_ledger")
    assert len(lines) == 480
    visible = [report.rows.visible for report in reports]
    assert visible[1] == visible[2]
    assert sum(line["rows_new"] for line in lines) == sum(visible) - visible[2]


def test_nothing_is_lost_when_the_broker_is_killed(
    simulation: Simulation, broker: EmbeddedBroker
) -> None:
    running = simulation.start("--messages", "1500")
    assert eventually(lambda: bool(simulation.runs()) and simulation.record_lines() > 300)
    endpoint = broker.endpoint()
    assert endpoint is not None
    subprocess.run(["kill", "-9", str(endpoint.pid)], check=True)
    assert eventually(lambda: broker.endpoint() is None)
    broker.ensure_running()
    told, _ = running.communicate(timeout=120)
    summary = json.loads(told)
    assert running.returncode == 0
    assert summary["lost_connections"] > 0
    assert (summary["published"], summary["unacknowledged"]) == (1500, 0)
    simulation.land(1500)
    simulation.drain()
    report = simulation.report(summary["run"])
    assert report.is_clean, report
    assert report.messages.visible == 1500


def test_runs_that_are_stopped_leave_records_that_hold(simulation: Simulation) -> None:
    killed = _stopped(simulation, signal.SIGKILL, slug="killed")
    ended = _stopped(simulation, signal.SIGTERM, slug="ended")
    assert ended.returncode == 0
    told = json.loads(ended.stdout)
    reports = [simulation.report(run) for run in simulation.runs()]
    assert told["acknowledged"] == reports[-1].messages.acknowledged > 50
    assert killed.stdout == ""
    assert [report.is_clean for report in reports] == [False, False]
    simulation.land(sum(report.messages.acknowledged for report in reports))
    simulation.drain()
    assert [simulation.report(run).is_clean for run in simulation.runs()] == [True, True]


def _stopped(
    simulation: Simulation, number: signal.Signals, *, slug: str
) -> subprocess.CompletedProcess[str]:
    before = len(simulation.runs())
    running = simulation.start("--forever", "--slug", slug)
    assert eventually(lambda: len(simulation.runs()) > before and simulation.record_lines() > 100)
    running.send_signal(number)
    told, _ = running.communicate(timeout=60)
    return subprocess.CompletedProcess(running.args, running.returncode, told)


def heard(name: str) -> int:
    """How many messages of a scenario the platform listens to."""
    return sum(step.expected.outcome is not None for step in SCENARIOS[name].steps())


def test_every_scenario_comes_to_its_ends_and_says_so(
    platform: Platform, broker: EmbeddedBroker
) -> None:
    simulation = Simulation(platform, broker.ensure_running(), auto_register=False)
    names = [*SCENARIOS]
    running = simulation.play(names)
    simulation.land(sum(heard(name) for name in names))
    simulation.drain()
    told, _ = running.communicate(timeout=200)
    findings = [json.loads(line) for line in told.splitlines()]
    assert [each["scenario"] for each in findings] == names
    assert [each for each in findings if not each["is_clean"]] == []
    assert running.returncode == 0


def test_where_first_schemas_are_reviewed_scenarios_come_to_other_ends(
    platform: Platform, broker: EmbeddedBroker
) -> None:
    reviewed = {"auto_register": False, "first_schema": FirstSchema.REVIEW}
    simulation = Simulation(platform, broker.ensure_running(), **reviewed)
    names = ["redelivery", "schema_breaking", "late_rows", "telemetry_gaps", "telemetry_of_a_clone"]
    names += ["published_on_control", "slug_of_the_broker"]
    running = simulation.play(names)
    simulation.land(sum(heard(name) for name in names))
    simulation.drain()
    told, _ = running.communicate(timeout=200)
    findings = [json.loads(line) for line in told.splitlines()]
    assert [each for each in findings if not each["is_clean"]] == []
    ends = {end["expected"] for each in findings for end in each["ends"]}
    assert ends == {
        "staged for schema_review",
        "staged for schema_review with late rows",
        "duplicate",
        "duplicate in conflict",
        "heard by nobody",
    }


def test_scenarios_go_by_the_limits_of_the_deployment(
    platform: Platform, broker: EmbeddedBroker
) -> None:
    limits = {"payload_max_bytes": 400_000, "batch_max_rows": 300, "materialization_failures": 3}
    simulation = Simulation(platform, broker.ensure_running(), **limits)
    names = ["largest_payload", "payload_too_large", "most_rows", "deaf_to_a_pause"]
    running = simulation.play(names)
    simulation.land(sum(heard(name) for name in names))
    simulation.drain()
    told, _ = running.communicate(timeout=200)
    findings = [json.loads(line) for line in told.splitlines()]
    assert [each["scenario"] for each in findings if each["is_clean"]] == names


def test_a_scenario_that_comes_to_no_end_is_a_failure(simulation: Simulation) -> None:
    done = simulation.platform.try_ilyama("simulate", "--scenario", "redelivery", "--wait", "0")
    assert done.returncode == 1
    assert "nothing yet" in done.stdout
    assert "3 of these messages are not drained yet" in done.stdout
    assert "Not as it had to be" not in done.stdout
    impossible = ("simulate", "--scenario", "unregistered_device")
    assert "ILYAMA_AUTO_REGISTER=false" in simulation.platform.try_ilyama(*impossible).stderr
    crowded = ("simulate", "--scenario", "redelivery")
    told = simulation.platform.try_ilyama(*crowded, ILYAMA_PAYLOAD_MAX_BYTES="300").stderr
    assert "needs a higher ILYAMA_PAYLOAD_MAX_BYTES" in told


def test_the_firmware_of_the_documents_gets_its_first_batch_accepted(
    simulation: Simulation, tmp_path: Path
) -> None:
    firmware, batch = REPOSITORY / "docs" / "examples" / "firmware", tmp_path / "batch.json"
    MqttSubscriber(simulation.settings, simulation.broker_url, None).subscribe_only()
    made = subprocess.run(
        [sys.executable, firmware / "station.py"], capture_output=True, check=True
    )
    batch.write_bytes(made.stdout)
    topic = "acme/station-1/sync/rows/batch"
    words = (str(firmware / "publish.py"), str(batch), topic, simulation.broker_url)
    subprocess.run([sys.executable, *words], check=True, timeout=60)
    simulation.land(1)
    simulation.drain()
    [line] = simulation.platform.rows("batch_ledger")
    assert (line["device_id"], line["outcome"]) == ("acme/station-1", "accepted")
    assert line["rows_new"] == 3


def test_probes_tell_how_long_a_value_takes_to_be_served(simulation: Simulation) -> None:
    running = simulation.start("--messages", "60", "--probe", "--rate", "60", "--wait", "120")
    began = time.monotonic()
    simulation.land(60)
    simulation.drain()
    told, _ = running.communicate(timeout=120)
    latency = json.loads(told)["latency"]
    assert latency["served"] == latency["probes"] > 0
    assert 0 < latency["p50_s"] <= latency["p95_s"] <= latency["max_s"]
    assert latency["max_s"] < time.monotonic() - began + 10
