"""`python -m benchmarks`: measure, print, and leave the results in `benchmarks/results`."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks import growth, running_stack
from benchmarks.catalog import BENCHMARKS, Benchmark
from benchmarks.report import Report, Result, figure_lines, told
from benchmarks.workbench import MILLION, Scale, Workbench, forget_settings_of_the_developer
from ilyama_resources.settings import REPOSITORY

RESULTS: Final = REPOSITORY / "benchmarks" / "results"
PARTIAL_RESULTS: Final = REPOSITORY / "build" / "benchmarks"
FULL: Final = Scale(long_history_rows=32 * MILLION)
STACK, GROWTH = "stack", "growth"


def main() -> None:
    """Measure what was asked for; exit 1 when something put out a wrong answer."""
    asked = _arguments()
    forget_settings_of_the_developer()
    report, failed = Report(), []
    with tempfile.TemporaryDirectory(prefix="ilyama-bench-", ignore_cleanup_errors=True) as home:
        bench = Workbench(Path(home), FULL if asked.full else Scale())
        try:
            for name, step in _steps(bench, report, full=asked.full).items():
                if (not asked.only or name in asked.only) and not _succeeds(name, step):
                    failed.append(name)
        finally:
            bench.close()
    directory = asked.results or (PARTIAL_RESULTS if asked.only else RESULTS)
    report.write(directory)
    print(f"The results are in {directory}.")
    if failed:
        sys.exit(f"Not measured, because something was not right: {', '.join(failed)}.")


def _steps(bench: Workbench, report: Report, *, full: bool) -> dict[str, Callable[[], None]]:
    """What a run does, by name and in order; the stack comes last, for it needs the machine."""

    def ratio(benchmark: Benchmark) -> Callable[[], None]:
        def step() -> None:
            report.results.append(Result(benchmark, benchmark.measure(bench)))
            print(told(report.results[-1]), flush=True)

        return step

    def grow() -> None:
        report.growth = growth.measure(bench)

    def stack() -> None:
        report.stack = running_stack.measure(bench)
        print("\n".join(figure_lines(report.stack)), flush=True)

    ratios = {str(benchmark.id): ratio(benchmark) for benchmark in BENCHMARKS}
    return ratios | ({GROWTH: grow} if full else {}) | {STACK: stack}


def _succeeds(name: str, step: Callable[[], None]) -> bool:
    started = time.monotonic()
    try:
        step()
    except Exception:
        print(f"{name}: FAILED\n{traceback.format_exc()}", flush=True)
        return False
    finally:
        print(f"     ({name}: {time.monotonic() - started:.0f} s in all)", flush=True)
    return True


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--full", action="store_true", help="32 M rows of history, and growth.")
    parser.add_argument("--only", type=_names, default=[], help="Some, like 1,6,9,stack.")
    parser.add_argument("--results", type=Path, help="Where to leave the results.")
    return parser.parse_args()


def _names(text: str) -> list[str]:
    known = {str(benchmark.id) for benchmark in BENCHMARKS} | {STACK, GROWTH}
    names = text.split(",")
    if unknown := sorted(set(names) - known):
        raise argparse.ArgumentTypeError(f"there is no {unknown[0]}")
    return names


if __name__ == "__main__":
    main()
