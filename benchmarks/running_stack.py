"""The running stack: how long a value takes to be visible, rows per second, memory."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.measuring import Figure
from benchmarks.workbench import Workbench
from benchmarks.workloads import Fleet
from ilyama_resources.embedded.postgres_server import EmbeddedPostgres
from ilyama_resources.postgres import Gateway
from ilyama_resources.postgres.ledger import LedgerBalance, LedgerFilter
from ilyama_resources.settings import PREFIX
from tests.oracle import Event
from tests.running import RunningStack, running_stack
from tests.waiting import eventually

RATE = 50
ROWS = 100
DEVICES = 50
BULK_ROWS = 1000
SETTLED_S = 6
WITHIN_S = 300
_LOOK_EVERY_S = 1.0


def measure(bench: Workbench) -> list[Figure]:
    """Run a stack, quiet, then under a steady load, then with all that it can take."""
    bench.close()
    home = bench.home / "stack"
    with running_stack(home) as stack, _records(stack) as gateway:
        # Sensors and automation begin with the stack; it is idle when they have calmed down.
        time.sleep(SETTLED_S)
        idle = _memory_of(home)
        with _watched(home) as memory:
            first = _first_message(stack, gateway)
            steady = _steady_load(stack, seconds=bench.scale.stack_seconds)
            bulk = _bulk_load(stack, gateway, messages=bench.scale.stack_bulk_messages)
    return [
        first,
        *steady,
        *bulk,
        Figure("memory of the idle stack, shared pages counted once", idle, "GiB"),
        Figure("most memory under load", max(memory.seen), "GiB"),
    ]


def _first_message(stack: RunningStack, gateway: Gateway) -> Figure:
    """One message to a stack that has not drained yet: the first run and Spark's workers start."""
    seconds = _visible_after(stack, gateway, Fleet(4, devices=1, slug="first").batches(1, rows=1))
    return Figure("publish → visible, the first message of a stack just started", seconds, "s")


def _steady_load(stack: RunningStack, *, seconds: int) -> list[Figure]:
    """A fleet at a rate that the stack holds, with probes among its messages."""
    load = ("--devices", DEVICES, "--rate", RATE, "--rows-per-batch", ROWS, "--misbehave", 0)
    words = ("simulate", "--probe", "--json", *map(str, load), "--duration", str(seconds))
    summary = json.loads(_said(stack, *words))
    report = json.loads(_said(stack, "simulate", "--verify", "--json"))
    rows, messages = report["rows"], report["messages"]
    assert rows["lost"] == rows["doubled"] == messages["lost"] == report["values"]["wrong"] == 0
    latency = summary["latency"]
    load_told = f"{RATE} messages/s of {ROWS} rows"
    return [
        Figure(f"publish → visible, p50, {load_told}", latency["p50_s"], "s"),
        Figure(f"publish → visible, p95, {load_told}", latency["p95_s"], "s"),
        Figure("of the probes, served in time", latency["served"] / latency["probes"], ""),
    ]


def _bulk_load(stack: RunningStack, gateway: Gateway, *, messages: int) -> list[Figure]:
    """Everything at once: from the first publish until the last row is in the tables."""
    events = Fleet(5).batches(messages, rows=BULK_ROWS)
    before = _balance(gateway)
    seconds = _visible_after(stack, gateway, events)
    rows = messages * BULK_ROWS
    assert _balance(gateway).rows_new - before.rows_new == rows
    return [
        Figure(f"rows end to end, {messages} messages of {BULK_ROWS} rows", rows / seconds, "/s"),
        Figure("of it, until everything was visible", seconds, "s"),
    ]


def _visible_after(stack: RunningStack, gateway: Gateway, events: Sequence[Event]) -> float:
    """The seconds from the first publish until the ledger has every message."""
    done = _balance(gateway).messages + len(events)
    started = time.perf_counter()
    _publish(stack, events)
    assert eventually(lambda: _balance(gateway).messages >= done, within_s=WITHIN_S)
    return time.perf_counter() - started


def _publish(stack: RunningStack, events: Sequence[Event]) -> None:
    with stack.device("bench-device") as device:
        device.wait_until_connected()
        for ticket in [device.publish(event.topic, event.payload) for event in events]:
            ticket.result(WITHIN_S)


def _said(stack: RunningStack, *words: str) -> str:
    done = stack.ilyama(*words)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def _balance(gateway: Gateway) -> LedgerBalance:
    with gateway.transaction() as tx:
        return tx.ledger.balance(LedgerFilter())


@contextmanager
def _records(stack: RunningStack) -> Iterator[Gateway]:
    endpoint = EmbeddedPostgres(stack.settings).endpoint()
    assert endpoint is not None
    gateway = Gateway(endpoint.url)
    try:
        yield gateway
    finally:
        gateway.close()


@dataclass
class _Memory:
    home: Path
    seen: list[float] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        while not self.stopped.wait(_LOOK_EVERY_S):
            self.seen.append(_memory_of(self.home))


@contextmanager
def _watched(home: Path) -> Iterator[_Memory]:
    memory = _Memory(home)
    watcher = threading.Thread(target=memory.watch, daemon=True)
    watcher.start()
    try:
        yield memory
    finally:
        memory.stopped.set()
        watcher.join()


def _memory_of(home: Path) -> float:
    """GiB of all processes of a home; what some of them share is counted once."""
    return sum(_share(process, home) for process in psutil.process_iter()) / 2**30


def _share(process: psutil.Process, home: Path) -> int:
    try:
        ours = process.environ().get(f"{PREFIX}HOME") == str(home)
        return int(process.memory_full_info().pss) if ours else 0
    except psutil.Error:
        return 0
