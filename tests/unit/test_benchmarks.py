"""The benchmarks run, put out the right answer, and report it in the agreed form."""

import json
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from benchmarks.blind_append import without_exactness
from benchmarks.catalog import BENCHMARKS, FULL_ONLY, Benchmark
from benchmarks.history import moved_ids
from benchmarks.measuring import Measured, Target, always, interleaved
from benchmarks.report import (
    JSON_FILE,
    MARKDOWN_FILE,
    PICTURE_FILE,
    Ratio,
    Report,
    Result,
    ratios_in,
)
from benchmarks.workbench import Scale, Workbench
from benchmarks.workloads import DEVICES, Fleet
from ilyama_assets.drains.datapoint_ids import datapoint_ids
from ilyama_protocol.limits import DEFAULT_LIMITS
from tests.memory_platform import MemoryPlatform
from tests.oracle import Event
from tests.oracle.validation import judge
from tests.streams.identifiers import START_US

PURE = [benchmark for benchmark in BENCHMARKS if benchmark.id in (3, 6)]
TINY = Scale(replayed_batches=2, decoded_batches=2, decoded_rows=200, pure_rounds=1)
MEMBERS = ["id", "name", "numerator_s", "denominator_s", "ratio", "target", "met"]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    bench = Workbench(tmp_path_factory.mktemp("bench"), TINY)
    return Report([Result(benchmark, benchmark.measure(bench)) for benchmark in PURE])


def test_the_json_is_a_list_of_ratios(report: Report, tmp_path: Path) -> None:
    report.write(tmp_path)
    lines = json.loads((tmp_path / JSON_FILE).read_text())
    assert [line["id"] for line in lines] == [3, 6]
    assert [list(line) for line in lines] == [MEMBERS] * len(lines)
    for line in lines:
        assert line["ratio"] == pytest.approx(line["numerator_s"] / line["denominator_s"])


def test_the_table_and_the_picture_are_written(report: Report, tmp_path: Path) -> None:
    report.write(tmp_path)
    table = (tmp_path / MARKDOWN_FILE).read_text()
    assert all(benchmark.name in table for benchmark in PURE)
    assert (tmp_path / PICTURE_FILE).read_bytes().startswith(b"\x89PNG")


def test_the_ratios_of_the_run_before_stand_beside_those_of_this_one(
    report: Report, tmp_path: Path
) -> None:
    slower = [Ratio(number, "", 777.0, 1.0, 777.0, 1.0, met=False) for number in (3, 6)]
    (tmp_path / JSON_FILE).write_bytes(msgspec.json.encode(slower))
    report.write(tmp_path)
    assert (tmp_path / MARKDOWN_FILE).read_text().count("| 777 |") == len(slower)
    assert ratios_in(tmp_path) == {line.ratio.id: line.ratio.ratio for line in report.results}


@pytest.mark.parametrize(
    ("target", "ratio", "met"),
    [
        (Target(1.1), 1.1, True),
        (Target(1.1), 1.2, False),
        (Target(0.6, at_least=True), 0.6, True),
        (Target(0.6, at_least=True), 0.5, False),
    ],
)
def test_a_target_is_met_on_its_good_side(target: Target, ratio: float, met: bool) -> None:
    benchmark = Benchmark(1, "one", "one ÷ another", target, lambda _: Measured([ratio], [1.0]))
    assert Result(benchmark, Measured([ratio], [1.0])).ratio.met is met


def test_each_side_is_first_in_every_other_round() -> None:
    turns: list[str] = []
    interleaved(always(lambda: turns.append("n")), always(lambda: turns.append("d")), rounds=3)
    assert "".join(turns) == "nddnnd"


def test_the_ratio_is_that_of_the_medians() -> None:
    assert Measured([1.0, 9.0, 2.0], [4.0, 1.0, 5.0]).ratio == 0.5


def test_every_ratio_has_a_number_of_its_own() -> None:
    numbers = [benchmark.id for benchmark in (*BENCHMARKS, *FULL_ONLY)]
    assert numbers == sorted(set(numbers))


def test_the_batches_of_a_fleet_are_valid_however_long_its_journals_are() -> None:
    fleet = Fleet(1, devices=1)
    first, second = fleet.batches(2)
    fleet.next_commit[0] = 900_000
    (late,) = fleet.batches(1)
    for event in (first, second, late):
        assert judge("rows", event.payload, registered=True).code is None
        assert len(event.payload) <= DEFAULT_LIMITS.payload_max_bytes


def test_a_fleet_sends_the_same_again_and_its_devices_take_turns() -> None:
    assert Fleet(1).batches(3, rows=2) == Fleet(1).batches(3, rows=2)
    topics = [event.topic for event in Fleet(1).batches(DEVICES + 1, rows=1)]
    assert len(set(topics)) == DEVICES
    assert topics[0] == topics[-1]


def test_an_id_that_is_moved_in_time_is_the_one_it_would_have_had() -> None:
    rng = np.random.default_rng(1)
    series = rng.integers(2**62, size=100, dtype=np.uint64)
    ts = START_US + rng.integers(10**12, size=100)
    later = ts + 123_456_789
    moments = pa.array(later).cast(pa.timestamp("us", tz="UTC"))
    assert moved_ids(datapoint_ids(ts, series), moments) == datapoint_ids(later, series)


def test_a_blind_append_takes_a_known_row_for_new() -> None:
    (event,) = Fleet(1, devices=1).batches(1, rows=3)
    again = Event(event.topic, event.payload + b" ", event.received_at_us + 1)
    exact = _rows_new(event, again)
    with without_exactness():
        blind = _rows_new(event, again)
    assert (exact, blind) == ([3, 0], [3, 3])


def _rows_new(*events: Event) -> list[int]:
    platform = MemoryPlatform()
    platform.drain(list(events))
    return [line["rows_new"] for line in platform.tables["batch_ledger"]]
