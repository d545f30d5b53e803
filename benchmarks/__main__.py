"""`python -m benchmarks`: measure, print, and leave the results in `benchmarks/results`."""

from __future__ import annotations

import argparse
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

from benchmarks.catalog import BENCHMARKS, Benchmark
from benchmarks.report import Report, Result, told
from benchmarks.workbench import Workbench, forget_settings_of_the_developer
from ilyama_resources.settings import REPOSITORY

RESULTS = REPOSITORY / "benchmarks" / "results"
PARTIAL_RESULTS = REPOSITORY / "build" / "benchmarks"


def main() -> None:
    """Measure what was asked for; exit 1 when something put out a wrong answer."""
    asked = _arguments()
    forget_settings_of_the_developer()
    report = Report()
    with tempfile.TemporaryDirectory(prefix="ilyama-bench-") as home:
        bench = Workbench(Path(home))
        try:
            failed = _measure(_chosen(asked.only), bench, report)
        finally:
            bench.close()
    directory = asked.results or (PARTIAL_RESULTS if asked.only else RESULTS)
    report.write(directory)
    print(f"The results are in {directory}.")
    sys.exit(1 if failed else 0)


def _measure(benchmarks: Sequence[Benchmark], bench: Workbench, report: Report) -> list[int]:
    failed = []
    for benchmark in benchmarks:
        try:
            report.results.append(Result(benchmark, benchmark.measure(bench)))
            print(told(report.results[-1]), flush=True)
        except Exception:
            failed.append(benchmark.id)
            print(f"{benchmark.id:>3}  {benchmark.name}: FAILED\n{traceback.format_exc()}")
    return failed


def _chosen(only: list[int]) -> list[Benchmark]:
    return [benchmark for benchmark in BENCHMARKS if not only or benchmark.id in only]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", type=_numbers, default=[], help="Some ratios, like 1,6,9.")
    parser.add_argument("--results", type=Path, help="Where to leave the results.")
    return parser.parse_args()


def _numbers(text: str) -> list[int]:
    known = {benchmark.id for benchmark in BENCHMARKS}
    numbers = [int(number) for number in text.split(",")]
    if unknown := set(numbers) - known:
        raise argparse.ArgumentTypeError(f"there is no ratio {min(unknown)}")
    return numbers


if __name__ == "__main__":
    main()
