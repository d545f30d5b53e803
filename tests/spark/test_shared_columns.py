"""Columns on which devices disagree, or that were decided late, show what they can hold."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ilyama_assets.drains.protocol import Intake
from ilyama_protocol.governance.bindings import MIRRORED, ColumnAction, Verb, mirrored
from tests.governed import act_on, reviewing, reviews
from tests.mirrors import Mirrors
from tests.platform import Platform
from tests.spark.arrivals import drained
from tests.unit.intake.traffic import TABLE, Change, batch, change, columns

ONE, TWO = "acme/dev-1", "acme/dev-2"
PUMPS = columns(v="INTEGER", w="TEXT")
BIG = 2**53 + 1


@pytest.fixture
def intake(platform: Platform) -> Iterator[Intake]:
    with platform.intake() as parts:
        yield parts


def _put(seq: int, pk: Any = 1, **row: Any) -> Change:
    return change(seq, pk, row=row)


def _key(device: str = ONE, pk: Any = 1) -> tuple[str, str]:
    return device, json.dumps({"id": pk}, separators=(",", ":"))


@pytest.mark.usefixtures("way")
def test_devices_that_disagree_on_a_kind_lose_no_value(intake: Intake, mirrors: Mirrors) -> None:
    drained(intake, [(ONE, batch(_put(1, 1, v=BIG), _put(2, 2, v="no number"), schema=PUMPS))])
    mirrors.derive()
    text = columns(v="TEXT")

    drained(intake, [(TWO, batch(_put(1, 1, v="text"), _put(2, 2, v=5), schema=text))])
    mirrors.derive()
    drained(intake, [(ONE, batch(_put(3, 3, v=4), schema=PUMPS, number=3))])
    mirrors.derive()

    assert (mirrors.types(TABLE)["v"], mirrors.columns(TABLE)["v"].affinity) == ("string", "MIXED")
    assert mirrors.rows(TABLE) == {
        _key(): {"v": str(BIG)},
        _key(pk=2): {},
        _key(pk=3): {"v": "4"},
        _key(TWO): {"v": "text"},
        _key(TWO, pk=2): {},
    }
    assert mirrors.differing() == 0


@pytest.mark.usefixtures("way")
def test_devices_that_disagree_on_a_number_lose_no_digit(intake: Intake, mirrors: Mirrors) -> None:
    drained(intake, [(ONE, batch(_put(1, 1, v=1), schema=PUMPS))])
    mirrors.derive()

    drained(intake, [(TWO, batch(_put(1, 1, v=0.5), schema=columns(v="REAL")))])
    mirrors.derive()
    assert mirrors.types(TABLE)["v"] == "double"
    assert mirrors.rows(TABLE) == {_key(): {"v": 1.0}, _key(TWO): {"v": 0.5}}

    drained(intake, [(ONE, batch(_put(2, 1, v=BIG), schema=PUMPS, number=2))])
    mirrors.derive()
    assert mirrors.rows(TABLE) == {_key(): {"v": str(BIG)}, _key(TWO): {"v": "0.5"}}
    assert mirrors.differing() == 0


@pytest.mark.usefixtures("way")
def test_a_column_that_was_decided_later_is_shown_from_then_on(
    platform: Platform, intake: Intake, mirrors: Mirrors
) -> None:
    wider, desk = columns(v="INTEGER", w="TEXT", x="TEXT"), reviewing(platform.gateway)
    drained(intake, [(ONE, batch(_put(1, v=1), schema=PUMPS))])
    drained(intake, [(ONE, batch(_put(2, 2, v=2, x="staged"), schema=wider, number=2))])
    (review,) = reviews(platform.gateway)
    left = mirrored(["v", "w", "x"]) | {"x": ColumnAction(Verb.DEFER)}
    approved = desk.approve(act_on(review), left)
    drained(intake, [(ONE, batch(_put(3, 3, v=3, x="before"), schema=wider, number=3))])
    mirrors.derive()
    assert "x" not in mirrors.types(TABLE)

    desk.decide(act_on(approved), {"x": MIRRORED})
    drained(intake, [(ONE, batch(_put(4, 4, v=4, x="after"), schema=wider, number=4))])
    mirrors.derive()

    shown = {_key(pk=1): {"v": 1}, _key(pk=3): {"v": 3}, _key(pk=4): {"v": 4, "x": "after"}}
    assert mirrors.rows(TABLE) == shown
    assert mirrors.differing() == 0
    mirrors.derive(rebuild=True)
    assert mirrors.rows(TABLE) == shown
