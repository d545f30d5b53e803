"""Small plots for asset pages: where a person would rather look than read.

Drawn by hand as SVG: a run would spend longer on loading a plotting library than on its report.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from dagster import MarkdownMetadataValue, MetadataValue

from ilyama_resources.postgres.ledger import HourlyIntake

_COLOURS: Final = {
    "accepted": "#2e7d4f",
    "duplicate": "#8aa0b4",
    "rejected": "#c2452d",
    "staged": "#d69a2d",
    "kept": "#5b6ee1",
    "handled": "#8a7fd1",
}
_WIDTH, _HEIGHT = 720, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 34, 28
_HOURS: Final = 24
_LABELLED_EVERY: Final = 4
_BAR_SHARE: Final = 0.8
_GRID_LINES: Final = 4


class _Bar(NamedTuple):
    """Messages of one outcome in one hour, on top of those below them."""

    slot: int
    below: int
    messages: int
    outcome: str


def intake_plot(hours: Sequence[HourlyIntake], *, until: datetime) -> MarkdownMetadataValue:
    """Messages per hour over the last day, by outcome, as an image in Markdown."""
    last = until.replace(minute=0, second=0, microsecond=0)
    slots = [last - timedelta(hours=back) for back in range(_HOURS - 1, -1, -1)]
    bars = list(_stacked(hours, slots))
    top = nice_ceiling(max((bar.below + bar.messages for bar in bars), default=0))
    drawn = [*_axis(top), *_hour_labels(slots), *(_drawn(bar, top) for bar in bars)]
    svg = _document([*drawn, *_legend({bar.outcome for bar in bars})])
    encoded = base64.b64encode(svg.encode()).decode()
    return MetadataValue.md(f"![Intake over the last day](data:image/svg+xml;base64,{encoded})")


def nice_ceiling(highest: int) -> int:
    """The end of an axis: the next number a person would choose."""
    step = 1
    while True:
        for factor in (1, 2, 4, 8):
            if highest <= factor * step * _GRID_LINES:
                return factor * step * _GRID_LINES
        step *= 10


def _stacked(hours: Sequence[HourlyIntake], slots: Sequence[datetime]) -> Iterator[_Bar]:
    found = {(hour.hour, hour.outcome): hour.messages for hour in hours}
    for number, slot in enumerate(slots):
        below = 0
        for outcome in _COLOURS:
            if messages := found.get((slot, outcome), 0):
                yield _Bar(number, below, messages, outcome)
                below += messages


def _drawn(bar: _Bar, top: int) -> str:
    slot_width = (_WIDTH - _LEFT - _RIGHT) / _HOURS
    x = _LEFT + slot_width * (bar.slot + (1 - _BAR_SHARE) / 2)
    y, floor = _y(bar.below + bar.messages, top), _y(bar.below, top)
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{slot_width * _BAR_SHARE:.1f}" '
        f'height="{floor - y:.1f}" fill="{_COLOURS[bar.outcome]}"/>'
    )


def _axis(top: int) -> Iterator[str]:
    for line in range(_GRID_LINES + 1):
        value = top * line // _GRID_LINES
        y = _y(value, top)
        colour = "#555" if line == 0 else "#ddd"
        yield f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}" stroke="{colour}"/>'
        yield _text(f"{value:,}", _LEFT - 6, y + 4, anchor="end")


def _hour_labels(slots: Sequence[datetime]) -> Iterator[str]:
    slot_width = (_WIDTH - _LEFT - _RIGHT) / _HOURS
    for number, slot in enumerate(slots):
        if slot.hour % _LABELLED_EVERY == 0:
            x = _LEFT + slot_width * (number + 0.5)
            yield _text(f"{slot:%H:%M}", x, _HEIGHT - 10, anchor="middle")


def _legend(outcomes: set[str]) -> Iterator[str]:
    yield _text("messages per hour (UTC)", _LEFT, 20, anchor="start")
    x = _LEFT + 190
    for outcome in (name for name in _COLOURS if name in outcomes):
        yield f'<rect x="{x}" y="11" width="10" height="10" fill="{_COLOURS[outcome]}"/>'
        yield _text(outcome, x + 15, 20, anchor="start")
        x += 85


def _y(messages: int, top: int) -> float:
    return _HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _TOP) * messages / top


def _text(text: str, x: float, y: float, *, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'


def _document(parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="12" fill="#333">'
    )
    ground = f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>'
    return "".join([head, ground, *parts, "</svg>"])
