"""The growth of costs as plots."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes

from benchmarks.growth import FleetPoint, Growth, HistoryPoint
from benchmarks.picture import BAD, GOOD, REACH, new_plot


def draw_growth(growth: Growth, path: Path) -> None:
    """Draw drain times and rows per second over history and over devices."""
    plot = new_plot(11, 6.4)
    (times, speeds), (fleet_times, fleet_speeds) = plot.subplots(2, 2)
    _history_times(times, growth.histories)
    _speeds(speeds, [p.rows for p in growth.histories], [p.rows_per_s for p in growth.histories])
    _fleet_times(fleet_times, growth.fleets)
    devices = [point.devices for point in growth.fleets]
    _speeds(fleet_speeds, devices, [point.rows_per_s for point in growth.fleets])
    for axes in (times, speeds):
        _label(axes, [point.rows for point in growth.histories], "rows of history")
    for axes in (fleet_times, fleet_speeds):
        _label(axes, devices, "devices in one drain of 0.2 M rows")
    plot.savefig(path, dpi=130)


def _history_times(axes: Axes, points: Sequence[HistoryPoint]) -> None:
    rows = [point.rows for point in points]
    axes.plot(rows, [p.one_batch_s for p in points], "o-", color=GOOD, label="one new batch")
    again = [point.repeated_batch_s for point in points]
    axes.plot(rows, again, "s--", color=BAD, label="the same batch again")
    _seconds(axes, "A drain of one 4,096-row batch")


def _fleet_times(axes: Axes, points: Sequence[FleetPoint]) -> None:
    devices = [point.devices for point in points]
    axes.plot(devices, [p.later_drain_s for p in points], "o-", color=GOOD, label="known devices")
    first = [point.first_drain_s for point in points]
    axes.plot(devices, first, "s--", color=BAD, label="new devices")
    _seconds(axes, "A drain of 0.2 M rows")


def _seconds(axes: Axes, title: str) -> None:
    axes.set_ylim(bottom=0)
    axes.set_ylabel("seconds", fontsize=9)
    axes.set_title(title, fontsize=10)
    axes.legend(frameon=False, fontsize=8.5)


def _speeds(axes: Axes, places: Sequence[int], speeds: Sequence[float]) -> None:
    axes.plot(places, [speed / 1000 for speed in speeds], "o-", color=REACH)
    axes.set_ylim(0, max(speeds) / 1000 * 1.15)
    axes.set_ylabel("thousand rows/s", fontsize=9)
    axes.set_title("Speed of a drain of 0.2 M rows", fontsize=10)


def _label(axes: Axes, places: Sequence[int], name: str) -> None:
    axes.set_xscale("log")
    axes.set_xticks(places, [_short(place) for place in places], fontsize=8.5)
    axes.minorticks_off()
    axes.set_xlabel(name, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#dde2e7", linewidth=0.7)
    axes.set_axisbelow(True)


def _short(number: int) -> str:
    return f"{number / 1e6:g} M" if number >= 100_000 else f"{number:,}"
