"""Small plots for asset pages: where a person would rather look than read."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from datetime import datetime, timedelta

from dagster import MarkdownMetadataValue, MetadataValue
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.dates import DateFormatter, HourLocator, date2num
from matplotlib.figure import Figure

from ilyama_resources.postgres.ledger import HourlyIntake

_COLOURS = {
    "accepted": "#2e7d4f",
    "duplicate": "#8aa0b4",
    "rejected": "#c2452d",
    "staged": "#d69a2d",
    "kept": "#5b6ee1",
}


def intake_plot(hours: Sequence[HourlyIntake], *, until: datetime) -> MarkdownMetadataValue:
    """Messages per hour over the last day, by outcome, as an image in Markdown."""
    figure = Figure(figsize=(7.2, 2.4), layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.add_subplot()
    last = until.replace(minute=0, second=0, microsecond=0)
    slots = [last - timedelta(hours=back) for back in range(23, -1, -1)]
    places = date2num(slots)
    floor = [0] * len(slots)
    for outcome, colour in _COLOURS.items():
        found = {h.hour: h.messages for h in hours if h.outcome == outcome}
        heights = [found.get(slot, 0) for slot in slots]
        if any(heights):
            axes.bar(places, heights, width=1 / 28, bottom=floor, color=colour, label=outcome)
            floor = [a + b for a, b in zip(floor, heights, strict=True)]
    axes.set_xlim(places[0] - 1 / 24, places[-1] + 1 / 24)
    axes.xaxis.set_major_locator(HourLocator(interval=4))
    axes.xaxis.set_major_formatter(DateFormatter("%H:%M"))
    axes.set_ylabel("messages per hour")
    axes.spines[["top", "right"]].set_visible(False)
    if any(floor):
        axes.legend(frameon=False, fontsize=8, ncols=len(_COLOURS), loc="upper left")
    return MetadataValue.md(f"![Intake over the last day]({_data_url(figure)})")


def _data_url(figure: Figure) -> str:
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=110)
    return f"data:image/png;base64,{base64.b64encode(image.getvalue()).decode()}"
