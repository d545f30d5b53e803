"""What a run of the benchmarks leaves behind: a JSON list, a Markdown table, pictures."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec
import psutil

from benchmarks.catalog import Benchmark
from benchmarks.growth import Growth
from benchmarks.growth_picture import draw_growth
from benchmarks.hot_path import HotPath
from benchmarks.measuring import Figure, Measured
from benchmarks.picture import draw_ratios

JSON_FILE = "latest.json"
DETAILS_FILE = "latest-details.json"
MARKDOWN_FILE = "latest.md"
PICTURE_FILE = "latest.png"
GROWTH_FILE = "growth.json"
GROWTH_PICTURE_FILE = "growth.png"


class Ratio(msgspec.Struct, frozen=True):
    """One line of the table; the seconds are medians for the same work."""

    id: int
    name: str
    numerator_s: float
    denominator_s: float
    ratio: float
    target: float
    met: bool


class Result(NamedTuple):
    """A benchmark and what came of it."""

    benchmark: Benchmark
    measured: Measured

    @property
    def ratio(self) -> Ratio:
        """The result as a line of the table."""
        name, target = self.benchmark.name, self.benchmark.target
        found = self.measured
        return Ratio(
            self.benchmark.id,
            name,
            numerator_s=found.numerator_s,
            denominator_s=found.denominator_s,
            ratio=found.ratio,
            target=target.limit,
            met=target.is_met(found.ratio),
        )


@dataclass
class Report:
    """Everything that one run of the benchmarks measured."""

    results: list[Result] = field(default_factory=list)
    stack: list[Figure] = field(default_factory=list)
    growth: Growth = field(default_factory=Growth)
    hot_path: HotPath | None = None
    surroundings: str = field(default_factory=lambda: surroundings())

    def write(self, directory: Path) -> None:
        """Leave the results in a directory."""
        directory.mkdir(parents=True, exist_ok=True)
        self.results.sort(key=lambda result: result.benchmark.id)
        if self.growth.histories and self.growth.fleets:
            (directory / GROWTH_FILE).write_bytes(_json(self.growth.points))
            draw_growth(self.growth, directory / GROWTH_PICTURE_FILE)
        if not self.results and not self.stack and not self.hot_path:
            return
        before = ratios_in(directory)
        ratios = [result.ratio for result in self.results]
        (directory / JSON_FILE).write_bytes(_json(ratios))
        (directory / DETAILS_FILE).write_bytes(_json(self._details()))
        has_growth = (directory / GROWTH_PICTURE_FILE).exists()
        markdown = self.markdown(before, has_growth=has_growth)
        (directory / MARKDOWN_FILE).write_text(markdown, encoding="utf-8")
        draw_ratios(self.results, directory / PICTURE_FILE)

    def markdown(self, before: Mapping[int, float], *, has_growth: bool = False) -> str:
        """The table, with the ratios of the run before, and what was seen beside it."""
        lines = ["# Benchmarks", "", self.surroundings, ""]
        if self.results:
            lines += [*_ratio_table(self.results, before), "", f"![The ratios]({PICTURE_FILE})", ""]
        if self.stack:
            lines += ["## The running stack", "", *_figure_table(self.stack), ""]
        if self.hot_path is not None:
            lines += ["## Where a row's microseconds go", "", "In a task, of one core:", ""]
            lines += [*_figure_table(self.hot_path.task), "", "In a drain, by the clock:", ""]
            lines += [*_figure_table(self.hot_path.drain), ""]
        if has_growth:
            lines += ["## Growth", "", "Measured by `make bench-full`.", ""]
            lines += [f"![Growth of costs]({GROWTH_PICTURE_FILE})", ""]
        beside = [
            Figure(f"{result.benchmark.id}: {figure.name}", figure.value, figure.unit)
            for result in self.results
            for figure in result.measured.beside
        ]
        if beside:
            lines += ["## Seen on the way", "", *_figure_table(beside), ""]
        return "\n".join(lines)

    def _details(self) -> dict[str, object]:
        return {
            "surroundings": self.surroundings,
            "rounds": {
                str(result.benchmark.id): {
                    "numerator_s": result.measured.numerator,
                    "denominator_s": result.measured.denominator,
                    "beside": [figure._asdict() for figure in result.measured.beside],
                }
                for result in self.results
            },
            "stack": [figure._asdict() for figure in self.stack],
        }


def surroundings() -> str:
    """On what machine and in what company the measurements were taken."""
    memory = psutil.virtual_memory().total / 2**30
    load = os.getloadavg()[0]
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return (
        f"{now}, {os.cpu_count()} cores, {memory:.0f} GiB, Python {platform.python_version()}, "
        f"load {load:.1f} before the first measurement."
    )


def told(result: Result, before: Mapping[int, float]) -> str:
    """One result in a line, for the terminal, with what an earlier run has found."""
    line = result.ratio
    verdict = "met" if line.met else "NOT MET"
    last = f", before {figure_text(before[line.id])}" if line.id in before else ""
    return (
        f"{line.id:>3}  {line.name}: {seconds(line.numerator_s)} ÷ {seconds(line.denominator_s)} "
        f"= {figure_text(line.ratio)}{last}  ({result.benchmark.target}: {verdict})"
    )


def seconds(value: float) -> str:
    """A time in the unit that it is best read in."""
    if value >= 1:
        return f"{value:.2f} s"
    return f"{value * 1e3:.3g} ms" if value >= 1e-3 else f"{value * 1e6:.3g} µs"


def figure_text(value: float) -> str:
    """A number with three digits that count; a whole one above a thousand."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def ratios_in(directory: Path) -> dict[int, float]:
    """The ratios that an earlier run has left in a directory, by their numbers."""
    try:
        found = msgspec.json.decode((directory / JSON_FILE).read_bytes(), type=list[Ratio])
    except FileNotFoundError:
        return {}
    return {ratio.id: ratio.ratio for ratio in found}


def _ratio_table(results: Sequence[Result], before: Mapping[int, float]) -> list[str]:
    lines = ["| # | ratio | numerator | denominator | ratio | before | target | met |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for result in results:
        line = result.ratio
        cells = (
            str(line.id),
            line.name,
            seconds(line.numerator_s),
            seconds(line.denominator_s),
            f"**{figure_text(line.ratio)}**",
            figure_text(before[line.id]) if line.id in before else "",
            str(result.benchmark.target),
            "yes" if line.met else "**no**",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def figure_lines(figures: Sequence[Figure]) -> list[str]:
    """Figures in lines, for the terminal."""
    return [f"     {name}: {figure_text(value)} {unit}".rstrip() for name, value, unit in figures]


def _figure_table(figures: Sequence[Figure]) -> list[str]:
    cells = ((f.name, f"{figure_text(f.value)} {f.unit}".strip()) for f in figures)
    return ["| what | figure |", "|---|---|", *(f"| {name} | {told} |" for name, told in cells)]


def _json(document: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
