"""What devices send lands, whatever goes wrong with replays of rejections."""

from __future__ import annotations

from datetime import date
from types import SimpleNamespace
from typing import Any

import pytest
from dagster import DagsterInstance, SensorResult, build_sensor_context

import sensors.mqtt_ingest as ingesting
from ilyama_resources.landing.replays import ReplayLanding
from sensors.mqtt_ingest import Landed, mqtt_ingest
from sensors.run_planning import RunPlan

DAY = date(2026, 4, 28)
NOTHING: Any = SimpleNamespace(gateway=None, landing=SimpleNamespace(register_found=lambda _: None))


def _tick(monkeypatch: pytest.MonkeyPatch, plan: RunPlan) -> tuple[list[str], Any]:
    """Let a tick land beside replays that fail; what it did, and what came of it."""
    done: list[str] = []

    def broken(*_: Any, **__: Any) -> int:
        done.append("replays")
        raise RuntimeError("no replay lands")

    def land(*_: Any, **__: Any) -> Landed:
        done.append("messages")
        return Landed("landed 2 messages")

    monkeypatch.setattr(ReplayLanding, "land", broken)
    monkeypatch.setattr(ingesting, "_land", land)
    monkeypatch.setattr(ingesting, "_bury_dead_runs", lambda *_: "")
    monkeypatch.setattr(ingesting, "_plan", lambda *_: plan)
    monkeypatch.setattr(ingesting, "ensure_days", lambda *_: None)
    parts = dict.fromkeys(("records", "lake", "broker"), NOTHING)
    with DagsterInstance.ephemeral() as instance:
        try:
            return done, mqtt_ingest(build_sensor_context(instance=instance, resources=parts))
        except RuntimeError as error:
            return done, error


def test_messages_land_and_the_tick_tells_that_replays_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done, failed = _tick(monkeypatch, RunPlan(None, "nothing waits"))
    assert done == ["replays", "messages"]
    assert str(failed) == "no replay lands"


def test_a_run_that_is_due_is_asked_for_though_replays_do_not_land(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done, result = _tick(monkeypatch, RunPlan(DAY, "2 messages wait"))
    assert done == ["replays", "messages"]
    assert isinstance(result, SensorResult)
    (request,) = result.run_requests or []
    assert request.tags[ingesting.REASON] == "no replay lands; landed 2 messages; 2 messages wait"


def test_a_run_is_asked_for_however_much_is_to_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    _, result = _tick(monkeypatch, RunPlan(DAY, "x" * 5_000))
    (request,) = result.run_requests
    assert len(request.tags[ingesting.REASON]) == 500
