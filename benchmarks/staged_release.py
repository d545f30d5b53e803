"""Ratio 15: rows per second of releasing what was staged, against taking it in at once.

Both platforms get the same messages. On one of them the lineages are paused, so that a drain
decides the rows and sets them aside; then the pauses end, and drains release them.
"""

from __future__ import annotations

from contextlib import ExitStack
from datetime import date

from benchmarks.measuring import Figure, Measured, Work, interleaved, timed
from benchmarks.peer_comparison import assert_same_tables
from benchmarks.workbench import Workbench, drain_all, land
from benchmarks.workloads import ROWS, TABLE, Fleet
from ilyama_assets.drains.protocol import Intake
from ilyama_protocol.intake.lineage_rulings import PauseReason
from ilyama_protocol.moments import day_of
from tests.platform import Platform
from tests.streams.identifiers import START_US

TABLES = ("raw_batches", "row_changes", "metric_datapoint", "state_datapoint")
DAY: date = day_of(START_US)


def measure(bench: Workbench) -> Measured:
    """Take in and release the same rows by turns; of two rates, the faster one's seconds above."""
    with ExitStack() as stack:
        at_once, later = (_Side(bench, stack) for _ in range(2))
        at_once.take_in()
        later.take_in()
        measured = interleaved(at_once.prepared, later.staged, rounds=bench.scale.long_drain_rounds)
        assert_same_tables(at_once.warehouse, later.warehouse, TABLES)
    rows = bench.scale.staged_batches * ROWS
    staging_s = sorted(later.staging_s)[len(later.staging_s) // 2]
    return measured.with_figures(
        Figure("taken in at once", rows / measured.numerator_s, "rows/s"),
        Figure("staged", rows / staging_s, "rows/s"),
        Figure("released", rows / measured.denominator_s, "rows/s"),
    )


class _Side:
    """A platform, and the fleet that sends to it: those of both sides are alike."""

    def __init__(self, bench: Workbench, stack: ExitStack) -> None:
        self._platform: Platform = stack.enter_context(bench.platform())
        settings = {"staged_backlog_rows": 10**9, "staged_backlog_bytes": 10**12}
        self._intake: Intake = stack.enter_context(self._platform.intake(**settings))
        self._fleet = Fleet(15)
        self._batches = bench.scale.staged_batches
        self._lineages = [(self._fleet.device_id(n), TABLE) for n in range(self._fleet.devices)]
        self.warehouse = self._platform.settings.warehouse
        self.staging_s: list[float] = []

    def take_in(self) -> None:
        """Drain a first batch of every device, whose schema is accepted with it."""
        land(self._intake, self._fleet.batches(self._fleet.devices, rows=ROWS))
        drain_all(self._intake)

    def prepared(self, _: int) -> Work:
        """Messages that wait to be drained."""
        land(self._intake, self._fleet.batches(self._batches))
        return lambda: drain_all(self._intake)

    def staged(self, number: int) -> Work:
        """The same messages, staged already and free to go."""
        with self._platform.gateway.transaction() as tx:
            tx.pauses.add(self._lineages, PauseReason.OPERATOR)
            tx.commit()
        self.staging_s.append(timed(self.prepared(number)))
        with self._platform.gateway.transaction() as tx:
            tx.pauses.clear(self._lineages, PauseReason.OPERATOR)
            tx.commit()
        return self._release

    def _release(self) -> None:
        with self._intake.alone():
            while self._intake.release(DAY) is not None:
                pass
