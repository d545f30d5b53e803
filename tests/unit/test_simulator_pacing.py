"""A run keeps its pace, its options fit together, and its figures are right."""

from typing import Any

import pytest
import typer

from ilyama_service.cli.simulated_fleet import Extent, planned_run
from ilyama_service.simulator.pacing import Pace
from ilyama_service.simulator.record import ranges_of
from ilyama_service.simulator.summary import latency_of


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def planned(**options: Any) -> Any:
    extent = {name: options.pop(name) for name in Extent._fields if name in options}
    usual: dict[str, Any] = {"seed": None, "probe": False, "probe_wait_s": 1, "connections": 1}
    fleet = usual | {"rate": 10.0, "slug": "acme", "devices": 3} | options
    return planned_run(Extent(**extent), **fleet)


def test_messages_fall_due_at_the_rate() -> None:
    clock = Clock()
    pace = Pace(10, clock=clock)
    assert pace.due() == 1
    pace.take(1)
    assert pace.due() == 0
    assert pace.until_next() == pytest.approx(0.1)
    clock.now += 0.55
    assert pace.due() == 5


def test_what_is_late_is_made_up_for() -> None:
    clock = Clock()
    pace = Pace(10, clock=clock)
    clock.now += 60
    assert pace.due() == 601
    pace.take(100)
    assert pace.due() == 501
    assert pace.until_next() == 0


def test_an_endless_fleet_is_forgiven_what_is_very_late() -> None:
    clock = Clock()
    pace = Pace(10, most_arrears_s=5, clock=clock)
    clock.now += 3600
    assert pace.due() == 50
    pace.take(50)
    assert pace.due() == 0
    clock.now += 1
    assert pace.due() == 10


@pytest.mark.parametrize(
    ("options", "messages"),
    [
        ({}, 600),
        ({"duration": 7.0}, 70),
        ({"duration": 0.0}, 1),
        ({"messages": 5}, 5),
        ({"forever": True}, None),
    ],
)
def test_a_run_has_as_many_messages_as_was_asked_for(
    options: dict[str, Any], messages: int | None
) -> None:
    assert planned(**options).messages == messages


@pytest.mark.parametrize(
    "options",
    [
        {"duration": 1.0, "messages": 1},
        {"forever": True, "messages": 1},
        {"forever": True, "seed": 1},
        {"slug": "a/b"},
        {"slug": "$sys"},
        {"slug": "devices"},
        {"slug": "a+"},
    ],
    ids=str,
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(typer.BadParameter):
        planned(**options)


def test_a_seed_fixes_the_plan_and_its_absence_does_not() -> None:
    assert planned(seed=1).plan == planned(seed=1).plan
    assert planned().plan != planned().plan


def test_numbers_are_written_as_ranges() -> None:
    assert ranges_of([5, 1, 2, 3, 7, 6, 9]) == [(1, 3), (5, 7), (9, 9)]


def test_quantiles_are_values_that_were_measured() -> None:
    latency = latency_of([n / 10 for n in range(1, 101)], probes=120)
    assert (latency.probes, latency.served) == (120, 100)
    assert (latency.p50_s, latency.p95_s, latency.max_s) == (5.0, 9.5, 10.0)
    assert latency_of([3.0], probes=1).p95_s == 3.0
    assert latency_of([], probes=1).p50_s is None
