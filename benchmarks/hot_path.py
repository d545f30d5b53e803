"""Where each microsecond of a row goes: the steps of a drain, timed while it runs.

A task is carried out in this process, by one core, and a whole drain through Spark and Postgres.
Steps call one another; each is told without what the steps inside it took.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any, NamedTuple
from unittest.mock import patch

from benchmarks.measuring import Figure
from benchmarks.work_orders import work_orders
from benchmarks.workbench import Workbench, drain_all, land, written_segments
from benchmarks.workloads import ROWS, Fleet
from ilyama_assets.drains import task
from ilyama_assets.drains.protocol import Intake

DEVICES = 16
BATCHES = 64
TURNS = 5

_TASK_STEPS = {
    "ilyama_assets.drains.task._messages_by_topic": "reading segments",
    "ilyama_protocol.intake.digests.Digests.of": "hashing payloads",
    "ilyama_protocol.validation.fast._read": "parsing, with types and ranges",
    "ilyama_protocol.validation.fast.key_count": "counting keys, so that none comes twice",
    "ilyama_protocol.validation.fast.cut_texts": "cutting out the texts of keys and rows",
    "ilyama_protocol.intake.engine.validate": "the other checks",
    "ilyama_protocol.intake.known_keys.KnownKeys.numbers": "numbering and hashing primary keys",
    "ilyama_protocol.intake.row_intake.decide_rows": "telling new rows from known and late ones",
    "ilyama_protocol.intake.row_intake.datapoints_of": "making datapoints, column by column",
    "ilyama_protocol.intake.newest_points.NewestPoints.advance": "following the newest values",
    "ilyama_protocol.intake.newest_points.NewestPoints.values": "naming the newest values",
    "ilyama_assets.drains.task.projected": "current values as columns",
    "ilyama_assets.drains.encoding.encoded_points": "datapoints as columns",
    "ilyama_assets.drains.encoding.Encoder.encode": "rows and messages as columns",
    "ilyama_assets.drains.task.split_by_rules": "integrity of what was made",
    "ilyama_assets.drains.integrity.TaskIntegrity.inspect": "integrity of what was made",
    "ilyama_resources.delta.data_files.pq.write_table": "writing Parquet",
    "ilyama_resources.delta.data_files.os.fsync": "forcing files to disk",
    "ilyama_resources.delta.data_files.force_to_disk": "forcing files to disk",
    "ilyama_resources.delta.data_files.statistics": "statistics of files",
    "ilyama_assets.drains.task.carry_out": "everything else",
}

_DRAIN_STEPS = {
    "ilyama_assets.drains.protocol.Intake._open": "open",
    "ilyama_assets.drains.protocol.Intake._plan": "plan: senders, states, rulings",
    "ilyama_assets.drains.deciding.Decider._products": "decide: the tasks, both cores, and Spark",
    "ilyama_assets.drains.protocol.Intake._seal": "seal",
    "ilyama_assets.drains.protocol.Intake._commit_and_close": "commit",
    "ilyama_resources.postgres.current_instances.CurrentInstances.advance": "close: current values",
    "ilyama_assets.drains.protocol.close_drain": "close: everything else",
    "ilyama_assets.drains.protocol.Intake.drain": "everything else",
}


class HotPath(NamedTuple):
    """Microseconds per row: of one core in a task, and of the clock in a drain."""

    task: list[Figure]
    drain: list[Figure]


def measure(bench: Workbench) -> HotPath:
    """Take the median of some tasks and of some drains."""
    with bench.platform() as platform, platform.intake() as intake:
        fleet = Fleet(3, devices=DEVICES)
        tasks = [_task(intake, fleet) for _ in range(TURNS)]
        drains = [_drain(intake, fleet) for _ in range(TURNS)]
    return HotPath(_per_row(tasks), _per_row(drains))


@dataclass
class Stopwatch:
    """Seconds of steps, each without those of the steps that it calls."""

    seconds: dict[str, float] = field(default_factory=dict)
    _inner: list[float] = field(default_factory=list)

    def step(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """Work whose seconds count for a step."""

        def timed(*words: Any, **named: Any) -> Any:
            self._inner.append(0.0)
            started = time.perf_counter()
            try:
                return work(*words, **named)
            finally:
                took = time.perf_counter() - started
                own = took - self._inner.pop()
                self.seconds[name] = self.seconds.get(name, 0.0) + own
                if self._inner:
                    self._inner[-1] += took

        return timed

    @contextmanager
    def watching(self, steps: Mapping[str, str]) -> Iterator[None]:
        """Time the named functions while the context lasts."""
        with ExitStack() as stack:
            for target, name in steps.items():
                found = patch(target)
                original, _ = found.get_original()
                stack.enter_context(patch(target, self.step(name, original)))
            yield


def _task(intake: Intake, fleet: Fleet) -> dict[str, float]:
    """Carry out one task here; no commit ever names its files."""
    written = written_segments(intake, fleet.batches(BATCHES))
    segments = [intake.landing.path(segment.segment_id, segment.day) for segment in written]
    _, orders = work_orders(intake, segments, drain_id=1, tasks=1)
    watch = Stopwatch()
    with watch.watching(_TASK_STEPS):
        task.carry_out(orders[0])
    return watch.seconds


def _drain(intake: Intake, fleet: Fleet) -> dict[str, float]:
    land(intake, fleet.batches(BATCHES))
    watch = Stopwatch()
    with watch.watching(_DRAIN_STEPS):
        drain_all(intake)
    return watch.seconds


def _per_row(turns: Sequence[Mapping[str, float]]) -> list[Figure]:
    steps = {name: median(turn.get(name, 0.0) for turn in turns) for name in turns[0]}
    ranked = sorted(steps.items(), key=lambda step: -step[1])
    told = [Figure(name, s * 1e6 / (BATCHES * ROWS), "µs") for name, s in ranked]
    return [*told, Figure("together", sum(figure.value for figure in told), "µs")]
