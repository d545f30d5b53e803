"""A run started from the UI drains its day, or replays it, and tells what it did."""

import pytest
from dagster import AssetKey, DagsterInstance, ExecuteInProcessResult

from ilyama_assets.checks.intake import INTAKE_CHECKS
from ilyama_assets.definitions import defs
from ilyama_assets.tables import INTAKE_TABLES
from tests.platform import Platform
from tests.streams import generate

DAY = "2026-04-28"


@pytest.fixture
def instance(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> DagsterInstance:
    """An ephemeral Dagster whose runs work on the test's platform."""
    for name, value in platform.settings.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ILYAMA_RUN_IDLE_S", "0.1")
    made = DagsterInstance.ephemeral()
    made.add_dynamic_partitions("arrival_day", [DAY])
    return made


def _run_by_hand(instance: DagsterInstance) -> ExecuteInProcessResult:
    job = defs.resolve_job_def("intake_job")
    return job.execute_in_process(instance=instance, partition_key=DAY)


def test_a_run_by_hand_drains_what_waits_and_then_replays(
    platform: Platform, instance: DagsterInstance
) -> None:
    events = generate(41, batches=25, day_crossings=False)
    platform.import_events(events)
    first = _run_by_hand(instance)
    told = first.get_asset_materialization_events()
    assert len(told) == len(INTAKE_TABLES)
    checks = first.get_asset_check_evaluations()
    assert len(checks) == len(INTAKE_CHECKS)
    assert all(check.passed for check in checks)
    latest = instance.get_latest_materialization_event(AssetKey("raw_batches"))
    assert latest is not None
    materialization = latest.asset_materialization
    assert materialization is not None
    assert materialization.partition == DAY
    assert materialization.metadata["messages received"].value == len(events)
    assert "data:image/svg+xml" in str(materialization.metadata["intake over the last day"].value)
    _run_by_hand(instance)
    origins = {line["origin"] for line in platform.rows("batch_ledger")}
    assert origins == {"live", "day"}
    stored = platform.rows("row_changes") + platform.rows("telemetry_samples")
    assert len(stored) == sum(
        line["rows_new"] for line in platform.rows("batch_ledger") if line["origin"] == "live"
    )


def test_every_check_holds_on_a_drained_platform(
    platform: Platform, instance: DagsterInstance
) -> None:
    platform.import_events(generate(42, batches=25, day_crossings=False))
    _run_by_hand(instance)
    for job in ("serving_job", "verification_job", "compaction_job"):
        result = defs.resolve_job_def(job).execute_in_process(instance=instance)
        failed = [check for check in result.get_asset_check_evaluations() if not check.passed]
        assert [check.check_name for check in failed if check.severity.value == "ERROR"] == []
