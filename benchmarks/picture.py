"""The ratios at a glance: how far each is from its target, on the good side or the bad."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Plot

if TYPE_CHECKING:
    from benchmarks.report import Result

GOOD, BAD, REACH, GREY = "#2e7d4f", "#c2452d", "#2f5d9b", "#5f6b76"


def draw_ratios(results: Sequence[Result], path: Path) -> None:
    """Draw one bar per ratio; its length is how many times better or worse than its target."""
    plot = new_plot(9.6, 1.3 + 0.46 * len(results))
    axes = plot.add_subplot()
    for place, result in enumerate(results):
        _draw(axes, place, result)
    axes.axvline(0, color="black", linewidth=1.2)
    axes.set_yticks(range(len(results)), [_label(result) for result in results], fontsize=8.5)
    axes.invert_yaxis()
    _label_factors(axes)
    title = "Against the target: better to the right, worse to the left; blue is what to reach for"
    axes.set_title(title, fontsize=10)
    plot.savefig(path, dpi=130)


def new_plot(width: float, height: float) -> Plot:
    """An empty picture that needs no screen."""
    plot = Plot(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(plot)
    return plot


def plain(axes: Axes) -> None:
    """Take away what is not needed to read a plot."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", color="#dde2e7", linewidth=0.7)
    axes.set_axisbelow(True)


def _draw(axes: Axes, place: int, result: Result) -> None:
    found, target = result.ratio, result.benchmark.target
    length = _goodness(found.ratio, target.limit, at_least=target.at_least)
    axes.barh(place, length, height=0.62, color=GOOD if found.met else BAD)
    if target.reach is not None:
        reach = _goodness(target.reach, target.limit, at_least=target.at_least)
        axes.plot([reach, reach], [place - 0.4, place + 0.4], color=REACH, linewidth=2)
    text = f" {found.ratio:.3g}  (target {target}) "
    side = "left" if length >= 0 else "right"
    axes.text(length, place, text, va="center", ha=side, fontsize=8.5, color=GREY)


def _goodness(ratio: float, limit: float, *, at_least: bool) -> float:
    """How many doublings a ratio is on the good side of its limit."""
    better = ratio / limit if at_least else limit / ratio
    return float(np.log2(better))


def _label(result: Result) -> str:
    return f"{result.benchmark.id}  {result.benchmark.short}"


def _label_factors(axes: Axes) -> None:
    low, high = axes.get_xlim()
    room = 0.42 * (high - low)
    low, high = low - (room if low < 0 else 0.02 * room), high + room
    axes.set_xlim(low, high)
    step = max(1, round((high - low) / 10))
    ticks = [tick for tick in range(-40, 41) if tick % step == 0 and low <= tick <= high]
    axes.set_xticks(ticks, [_factor(tick) for tick in ticks], fontsize=8)
    plain(axes)


def _factor(doublings: int) -> str:
    if doublings == 0:
        return "target"
    word = "better" if doublings > 0 else "worse"
    return f"{2 ** abs(doublings)} times\n{word}"
