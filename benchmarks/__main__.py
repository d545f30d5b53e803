"""`python -m benchmarks`: measure, print, and leave the results in `benchmarks/results`."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks import growth, hot_path, running_stack
from benchmarks.catalog import BENCHMARKS, FULL_ONLY, Benchmark
from benchmarks.report import Report, Result, figure_lines, ratios_in, told
from benchmarks.workbench import MILLION, Scale, Workbench, forget_settings_of_the_developer
from ilyama_resources.settings import REPOSITORY

RESULTS: Final = REPOSITORY / "benchmarks" / "results"
PARTIAL_RESULTS: Final = REPOSITORY / "build" / "benchmarks"
FULL: Final = Scale(long_history_rows=32 * MILLION, staged_batches=256, thorough=True)
STACK, GROWTH, HOT_PATH = "stack", "growth", "hot-path"


def main() -> None:
    """Measure what was asked for; exit 1 when something put out a wrong answer."""
    asked = _arguments()
    forget_settings_of_the_developer()
    report, failed = Report(), []
    with tempfile.TemporaryDirectory(prefix="ilyama-bench-", ignore_cleanup_errors=True) as home:
        bench = Workbench(Path(home), FULL if asked.full else Scale())
        try:
            for step in _steps(bench, report, full=asked.full):
                if (not asked.only or step.name in asked.only) and not _succeeds(step):
                    failed.append(step.name)
        finally:
            bench.close()
    directory = asked.results or (PARTIAL_RESULTS if asked.only else RESULTS)
    report.write(directory)
    print(f"The results are in {directory}.")
    if failed:
        sys.exit(f"Not measured, because something was not right: {', '.join(failed)}.")


class Step(NamedTuple):
    """A part of a run; `history_rows` is how long the shared history must be for it."""

    name: str
    run: Callable[[], None]
    history_rows: int = 0


def _steps(bench: Workbench, report: Report, *, full: bool) -> list[Step]:
    """What a run does, in order: as the history grows; the stack last, for it needs the machine."""
    measured = [*BENCHMARKS, *FULL_ONLY] if full else BENCHMARKS
    ratios = [_ratio(benchmark, bench, report) for benchmark in measured]
    thorough = [*_growing(bench, report), _hot_path(bench, report)] if full else []
    in_order = sorted([*ratios, *thorough], key=lambda step: step.history_rows)
    return [*in_order, Step(STACK, lambda: _measure_stack(bench, report))]


def _ratio(benchmark: Benchmark, bench: Workbench, report: Report) -> Step:
    before = ratios_in(RESULTS)

    def run() -> None:
        report.results.append(Result(benchmark, benchmark.measure(bench)))
        print(told(report.results[-1], before), flush=True)

    return Step(str(benchmark.id), run, benchmark.history_rows(bench.scale))


def _growing(bench: Workbench, report: Report) -> list[Step]:
    found = report.growth

    def after(rows: int) -> Step:
        return Step(GROWTH, lambda: found.histories.append(growth.after(bench, rows)), rows)

    def with_devices(devices: int) -> Step:
        return Step(GROWTH, lambda: found.fleets.append(growth.with_devices(bench, devices)))

    return [*map(with_devices, growth.FLEETS), *map(after, growth.HISTORIES)]


def _hot_path(bench: Workbench, report: Report) -> Step:
    def run() -> None:
        report.hot_path = hot_path.measure(bench)
        print("\n".join(figure_lines([*report.hot_path.task, *report.hot_path.drain])), flush=True)

    return Step(HOT_PATH, run)


def _measure_stack(bench: Workbench, report: Report) -> None:
    report.stack = running_stack.measure(bench)
    print("\n".join(figure_lines(report.stack)), flush=True)


def _succeeds(step: Step) -> bool:
    started = time.monotonic()
    try:
        step.run()
    except Exception:
        print(f"{step.name}: FAILED\n{traceback.format_exc()}", flush=True)
        return False
    finally:
        print(f"     ({step.name}: {time.monotonic() - started:.0f} s in all)", flush=True)
    return True


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--full", action="store_true", help="Also what takes longer.")
    parser.add_argument("--only", type=_names, default=[], help="Some, like 1,6,9,stack.")
    parser.add_argument("--results", type=Path, help="Where to leave the results.")
    return parser.parse_args()


def _names(text: str) -> list[str]:
    known = {str(benchmark.id) for benchmark in (*BENCHMARKS, *FULL_ONLY)} | {
        STACK,
        GROWTH,
        HOT_PATH,
    }
    names = text.split(",")
    if unknown := sorted(set(names) - known):
        raise argparse.ArgumentTypeError(f"there is no {unknown[0]}")
    return names


if __name__ == "__main__":
    main()
