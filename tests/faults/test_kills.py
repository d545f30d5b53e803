"""Any process may die at any moment, under load: nothing acknowledged is lost or doubled.

`FAULT_KILLS` says how many kills, `FAULT_SEED` which; a failing seed can be run again.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from ilyama_resources.settings import REPOSITORY
from tests.running import RunningStack, running_stack
from tests.waiting import eventually

KILLS = int(os.environ.get("FAULT_KILLS", "3"))
SEED = int(os.environ.get("FAULT_SEED", "1"))
PARTS = ["postgres", "broker", "spark", "code", "daemon", "webserver", "api", "run"]
LOAD = ("--devices", "20", "--rate", "20", "--misbehave", "0.1", "--duration", "36000")
BACK_WITHIN_S = 180
SETTLED_WITHIN_S = "300"


@pytest.mark.timeout(600 + 120 * KILLS)
@pytest.mark.parametrize("ingest", ["sensor", "process"])
def test_nothing_acknowledged_is_lost_or_doubled(
    tmp_path: Path, ingest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(f"{SEED} {ingest}")
    parts = [*PARTS, "ingest"] if ingest == "process" else PARTS
    with running_stack(tmp_path / "home", ingest=ingest) as stack:
        with load(stack) as record:
            recoveries = [kill_one(stack, chance, parts) for _ in range(KILLS)]
        verified = stack.ilyama("simulate", "--verify", "--wait", SETTLED_WITHIN_S)
        with capsys.disabled():
            sys.stdout.write(f"\n{ingest}, seed {SEED}: {json.dumps(recoveries)}\n")
        assert verified.returncode == 0, f"{record.read_text()[-2000:]}\n{verified.stdout}"
        assert stack.get("/v1/ledger")["balance"]["balanced"]


@contextmanager
def load(stack: RunningStack) -> Iterator[Path]:
    """A fleet that publishes as long as the block lasts; gives the file of what it says."""
    log = stack.settings.home / "simulate.log"
    with log.open("w") as out:
        fleet = subprocess.Popen(
            [sys.executable, "-m", "ilyama_service.cli", "simulate", *LOAD],
            env=stack.environment,
            cwd=REPOSITORY,
            stdout=out,
            stderr=out,
        )
    try:
        assert eventually(
            lambda: bool(stack.status().rows_today), within_s=BACK_WITHIN_S, every_s=1
        )
        yield log
        assert fleet.poll() is None, log.read_text()
    finally:
        fleet.send_signal(signal.SIGTERM)
        fleet.wait(timeout=BACK_WITHIN_S)


def kill_one(stack: RunningStack, chance: random.Random, parts: list[str]) -> tuple[str, float]:
    """Kill a part at a moment of chance; how long it took until all were healthy again."""
    part = chance.choice(parts)
    # Not to wait for something: the moment itself is what chance decides.
    time.sleep(chance.uniform(0, 5))
    killed_at = time.monotonic()
    if part == "run":
        kill_run(stack)
        back = stack.becomes_healthy(within_s=BACK_WITHIN_S)
    else:
        back = stack.recovers(part, killed=stack.kill(part), within_s=BACK_WITHIN_S)
    assert back, stack.ilyama("status").stdout
    return part, round(time.monotonic() - killed_at, 1)


def kill_run(stack: RunningStack) -> None:
    """Kill the processes of runs that are at work; there may be none at this moment."""
    code = stack.pid("code")
    assert code is not None
    for process in psutil.Process(code).children():
        if "multiprocessing.spawn" in " ".join(process.cmdline()):
            process.kill()
