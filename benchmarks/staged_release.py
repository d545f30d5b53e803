"""Ratios 15 and 16: rows per second of releasing what was staged, against taking it in at once.

Both platforms get the same messages, in every round of a table that is new. One accepts its schema.
On the other a person must look first, so that a drain decides the rows and sets them aside; then
the reviews are approved, and drains release the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import date
from functools import lru_cache
from statistics import median

from benchmarks.correctness import assert_platform_is_right, assert_served_alike
from benchmarks.measuring import Figure, Measured, Work, interleaved, timed
from benchmarks.peer_comparison import assert_same_tables
from benchmarks.workbench import Workbench, drain_all, land
from benchmarks.workloads import ROWS, TABLE, Fleet, SampledFleet
from ilyama_assets.drains.protocol import Intake
from ilyama_protocol.governance.policies import FirstSchema, PolicyChoice, PolicyScope
from ilyama_protocol.governance.reviews import ReviewState
from ilyama_protocol.moments import day_of
from ilyama_service.review_evidence import evidence_of
from tests.governed import act_on, reviewing, reviews
from tests.oracle import Event
from tests.platform import Platform
from tests.streams.identifiers import START_US

DATAPOINTS = ("metric_datapoint", "state_datapoint")
OF_ROWS = ("raw_batches", "row_changes", *DATAPOINTS)
OF_TELEMETRY = ("raw_batches", "telemetry_samples", *DATAPOINTS)
FEW_ROWS = 256
SAMPLED = 1
DAY: date = day_of(START_US)


def measure(bench: Workbench) -> Measured:
    """Take in and release the same rows of tables by turns."""
    return _measured(bench, Fleet(15), OF_ROWS)


def measure_telemetry(bench: Workbench) -> Measured:
    """Take in and release the same telemetry by turns."""
    return _measured(bench, SampledFleet(16), OF_TELEMETRY)


def _measured(bench: Workbench, fleet: Fleet | SampledFleet, tables: Sequence[str]) -> Measured:
    """Of two rates, the faster one's seconds stand above."""
    batches = bench.scale.staged_batches
    with ExitStack() as stack:
        at_once, later = (_Side(bench, stack) for _ in range(2))
        _prove(at_once, later, fleet, tables)
        messages = _each_of_a_new_table(fleet, batches)
        later.staging_s.clear()
        measured = interleaved(
            at_once.taking_in(messages),
            later.releasing(messages),
            rounds=bench.scale.long_drain_rounds,
        )
        assert_same_tables(at_once.warehouse, later.warehouse, tables)
    rows = batches * ROWS
    return measured.with_figures(
        Figure("taken in at once", rows / measured.numerator_s, "rows/s"),
        Figure("staged", rows / median(later.staging_s), "rows/s"),
        Figure("released", rows / measured.denominator_s, "rows/s"),
        Figure("showing a review with its evidence", median(later.showing_s), "s"),
    )


def _each_of_a_new_table(
    fleet: Fleet | SampledFleet, batches: int, *, rows: int = ROWS
) -> Callable[[int], list[Event]]:
    """The messages of every round: made once, since both sides get the same."""

    @lru_cache(maxsize=1)
    def messages(number: int) -> list[Event]:
        fleet.table = f"{TABLE}_{rows}_{number}"
        return fleet.batches(batches, rows=rows)

    return messages


def _prove(
    at_once: _Side, later: _Side, fleet: Fleet | SampledFleet, tables: Sequence[str]
) -> None:
    """Compare with the oracle what was taken in, and with that what was staged and released."""
    first = fleet.batches(fleet.devices)
    for side in (at_once, later):
        side.take_in(first)
    later.review_first()
    few = _each_of_a_new_table(fleet, fleet.devices, rows=FEW_ROWS)
    at_once.take_in(few(0))
    later.releasing(few)(0)()
    sampled = {fleet.device_id(number) for number in range(SAMPLED)}
    assert_platform_is_right(at_once.platform, [*first, *few(0)], devices=sampled)
    assert_same_tables(at_once.warehouse, later.warehouse, tables)
    assert_served_alike(later.platform, at_once.platform, sampled)


class _Side:
    """A platform that takes in what comes, or releases it later."""

    def __init__(self, bench: Workbench, stack: ExitStack) -> None:
        self.platform: Platform = stack.enter_context(bench.platform())
        settings = {"staged_backlog_rows": 10**9, "staged_backlog_bytes": 10**12}
        self._intake: Intake = stack.enter_context(self.platform.intake(**settings))
        self._desk = reviewing(self.platform.gateway, self._intake.settings.policy)
        self.warehouse = self.platform.settings.warehouse
        self.staging_s: list[float] = []
        self.showing_s: list[float] = []

    def review_first(self) -> None:
        """Have a person look at every new schema from now on."""
        choice = PolicyChoice(first_schema=FirstSchema.REVIEW)
        self._desk.choose(PolicyScope(), choice, actor="bench")

    def take_in(self, events: Sequence[Event]) -> None:
        """Land and drain messages."""
        land(self._intake, events)
        drain_all(self._intake)

    def taking_in(self, messages: Callable[[int], list[Event]]) -> Callable[[int], Work]:
        """The drain of messages that have landed."""

        def prepare(number: int) -> Work:
            land(self._intake, messages(number))
            return lambda: drain_all(self._intake)

        return prepare

    def releasing(self, messages: Callable[[int], list[Event]]) -> Callable[[int], Work]:
        """The approval and release of the same messages, which are staged already."""
        taking_in = self.taking_in(messages)

        def prepare(number: int) -> Work:
            self.staging_s.append(timed(taking_in(number)))
            self.showing_s.append(timed(self._show))
            return self._approve_and_release

        return prepare

    def _show(self) -> None:
        review = reviews(self.platform.gateway, ReviewState.QUEUED)[0]
        with self.platform.gateway.transaction() as tx:
            evidence = evidence_of(tx, review, self.warehouse)
        trial = evidence.dry_run.result
        assert trial.would_materialize == trial.rows > 0

    def _approve_and_release(self) -> None:
        for review in reviews(self.platform.gateway, ReviewState.QUEUED):
            self._desk.approve(act_on(review))
        with self._intake.alone():
            while self._intake.release(DAY) is not None:
                pass
