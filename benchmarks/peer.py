"""Ratio 9: a million rows through the platform, against DuckDB and delta-rs."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import ExitStack

from benchmarks.correctness import assert_platform_is_right
from benchmarks.current_values import derive
from benchmarks.duckdb_peer import DuckDbPeer
from benchmarks.measuring import Figure, Measured, Work, interleaved, timed
from benchmarks.peer_comparison import assert_same_output
from benchmarks.workbench import Workbench, drain_all, land_again, written_segments
from benchmarks.workloads import ROWS, Fleet
from tests.oracle import Event

SAMPLED = 1


def measure(bench: Workbench) -> Measured:
    """Take the same messages into empty tables with both, by turns."""
    fleet = Fleet(9)
    events = fleet.batches(bench.scale.peer_batches)
    with ExitStack() as stack:
        race = _Race(bench, stack, events)
        measured = interleaved(race.platform, race.peer, rounds=bench.scale.peer_rounds)
        race.prove(fleet)
        if bench.scale.thorough:
            seconds = timed(race.derive)
            measured = measured.with_figures(
                Figure("the Delta form of current values", seconds, "s")
            )
    rows = len(events) * ROWS
    return measured.with_figures(
        Figure("the platform", rows / measured.numerator_s, "rows/s"),
        Figure("DuckDB and delta-rs", rows / measured.denominator_s, "rows/s"),
    )


class _Race:
    """Both programs, each with what it needs for a round."""

    def __init__(self, bench: Workbench, stack: ExitStack, events: Sequence[Event]) -> None:
        self._bench = bench
        self._events = events
        self._warehouse = bench.home / "peer"
        self._landed = stack.enter_context(stack.enter_context(bench.platform()).intake())
        self._segments = written_segments(self._landed, events)
        self._peer = DuckDbPeer(bench.postgres_url)
        self._round = stack.enter_context(ExitStack())

    def platform(self, _: int) -> Work:
        """The platform with nothing in it but what has landed."""
        self._renew()
        return lambda: drain_all(self._intake)

    def peer(self, _: int) -> Work:
        """The other program with an empty warehouse."""
        shutil.rmtree(self._warehouse, ignore_errors=True)
        self._peer.forget()
        landing = self._landed.landing
        paths = [landing.path(segment.segment_id, segment.day) for segment in self._segments]
        return lambda: self._peer.run(paths, self._warehouse)

    def prove(self, fleet: Fleet) -> None:
        """Compare what the last round left with one another, and the platform with the oracle."""
        sampled = {fleet.device_id(number) for number in range(SAMPLED)}
        assert_platform_is_right(self._platform, self._events, devices=sampled)
        assert_same_output(self._platform, self._warehouse, self._peer)

    def derive(self) -> None:
        """Bring the Delta form of current values up to date, which neither side is asked for."""
        derive(self._intake)

    def _renew(self) -> None:
        """Put a platform in the place of the last round's."""
        self._round.close()
        self._platform = self._round.enter_context(self._bench.platform())
        self._intake = self._round.enter_context(self._platform.intake())
        land_again(self._intake, self._segments, self._landed.landing)
