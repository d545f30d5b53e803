"""The plots of asset pages."""

import base64
import re
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import pytest

from ilyama_assets.plots import intake_plot, nice_ceiling
from ilyama_resources.postgres.ledger import HourlyIntake

NOW = datetime(2026, 4, 28, 12, 34, tzinfo=UTC)
THIS_HOUR = NOW.replace(minute=0)


def drawn(hours: list[HourlyIntake]) -> ElementTree.Element:
    found = re.search(r"base64,([^)]+)\)", intake_plot(hours, until=NOW).md_str or "")
    assert found is not None
    return ElementTree.fromstring(base64.b64decode(found[1]))


def bars(svg: ElementTree.Element, colour: str) -> list[tuple[float, float]]:
    """Where the bars of a colour stand and how high they are; the legend's square is none."""
    found = [rect for rect in svg.iter() if rect.get("fill") == colour and rect.get("y") != "11"]
    return [(float(rect.get("x", 0)), float(rect.get("height", 0))) for rect in found]


def test_every_hour_of_the_last_day_has_its_place_and_height() -> None:
    svg = drawn(
        [
            HourlyIntake(THIS_HOUR, "accepted", 30, 0),
            HourlyIntake(THIS_HOUR, "rejected", 10, 0),
            HourlyIntake(THIS_HOUR - timedelta(hours=23), "accepted", 15, 0),
            HourlyIntake(THIS_HOUR - timedelta(hours=24), "accepted", 99, 0),
        ]
    )
    oldest, newest = bars(svg, "#2e7d4f")
    ((x, height),) = bars(svg, "#c2452d")
    assert newest[1] == pytest.approx(2 * oldest[1], abs=0.1)
    assert newest[1] == pytest.approx(3 * height, abs=0.2)
    assert newest[0] == x
    assert oldest[0] < newest[0]
    assert {"accepted", "rejected"} <= {text.text for text in svg.iter() if text.text}


def test_a_day_without_messages_is_an_empty_plot() -> None:
    assert "0" in {text.text for text in drawn([]).iter()}


@pytest.mark.parametrize(
    ("highest", "top"), [(0, 4), (4, 4), (5, 8), (33, 40), (41, 80), (900_001, 1_600_000)]
)
def test_an_axis_ends_at_a_number_a_person_would_choose(highest: int, top: int) -> None:
    assert nice_ceiling(highest) == top
