"""How long a run stays with its day."""

from datetime import date
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ilyama_assets.checks.intake import INTAKE_CHECKS, intake_check_results
from ilyama_assets.drains.protocol import Intake
from ilyama_assets.drains.running import Pace, RunReport, drain_day

DAY = date(2026, 4, 28)
PATIENT = Pace(idle_s=600, max_s=600, apart_s=0)
HASTY = Pace(idle_s=0, max_s=600, apart_s=0)


def _idle(*, waits_elsewhere: bool) -> Intake:
    """An intake for whose day nothing comes."""
    landing: Any = SimpleNamespace(put_away=lambda *_, **__: 0, sweep=lambda **_: 0)
    intake: Any = SimpleNamespace(
        drain=lambda _: None,
        release=lambda _: None,
        waits_elsewhere=lambda _: waits_elsewhere,
        landing=landing,
        gateway=None,
        settings=SimpleNamespace(segment_keep_h=24),
    )
    return cast(Intake, intake)


@pytest.mark.parametrize(
    ("pace", "waits_elsewhere"),
    [(PATIENT, True), (HASTY, False)],
    ids=["another day waits", "idle for long enough"],
)
def test_a_run_leaves_a_day_of_which_nothing_waits(pace: Pace, waits_elsewhere: bool) -> None:
    assert drain_day(_idle(waits_elsewhere=waits_elsewhere), DAY, pace).drains == []


def test_every_check_of_intake_is_reported() -> None:
    reported = [
        (result.asset_key, result.check_name) for result in intake_check_results(RunReport())
    ]

    assert sorted(reported) == sorted((spec.asset_key, spec.name) for spec in INTAKE_CHECKS)


def test_datapoints_that_are_there_twice_are_reported_of_their_table() -> None:
    run = RunReport(repeated_points={"state_datapoint": ["an id"]})

    failed = [result for result in intake_check_results(run) if not result.passed]

    assert [(r.asset_key.to_user_string(), r.check_name) for r in failed if r.asset_key] == [
        ("state_datapoint", "one_value_per_moment")
    ]
