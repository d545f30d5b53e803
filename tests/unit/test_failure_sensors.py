"""What fails is put down once, in words; what is old goes with everything that belongs to it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from dagster import (
    AssetCheckEvaluation,
    AssetCheckSeverity,
    AssetKey,
    DagsterInstance,
    DagsterRun,
    MetadataValue,
)
from dagster._core.storage.compute_log_manager import ComputeIOType
from dagster._core.utils import make_new_run_id

from ilyama_resources.postgres.events import Severity
from sensors.failed_checks import plan_events
from sensors.failed_runs import run_failed
from sensors.old_runs import remove_run, runs_finished_before


def _evaluation(*, passed: bool) -> AssetCheckEvaluation:
    return AssetCheckEvaluation(
        asset_key=AssetKey("row_changes"),
        check_name="owner_rule",
        passed=passed,
        metadata={"what to do": MetadataValue.text("Look at them.")},
        severity=AssetCheckSeverity.WARN,
        description="3 rows have no owner",
    )


def test_a_check_that_does_not_hold_becomes_one_event() -> None:
    held, failed = _evaluation(passed=True), _evaluation(passed=False)
    plan = plan_events([(7, "run", held), (9, "run", failed)], cursor="5")
    (event,) = plan.events
    assert event.message == "Check owner_rule of row_changes: 3 rows have no owner"
    assert (event.severity, event.details["what to do"]) == (Severity.WARN, "Look at them.")
    assert plan.cursor == "9"
    again = plan_events([(9, "run", failed)], cursor="9").events
    assert [one.event_id for one in again] == [event.event_id]


def test_without_evaluations_the_place_is_kept() -> None:
    assert plan_events([], cursor="5") == ([], "5")


def test_a_failed_run_is_told_by_the_first_line_of_its_reason() -> None:
    event = run_failed("0123456789", "intake_job", "\n  Spark failed: gone\n    at somewhere\n")
    assert event.message == "Run 01234567 of intake_job failed: Spark failed: gone"
    assert "at somewhere" in event.details["reason"]


def _finished_run(instance: DagsterInstance) -> str:
    run = DagsterRun(job_name="intake_job", run_id=make_new_run_id())
    instance.add_run(run)
    instance.report_run_failed(run)
    with instance.compute_log_manager.open_log_stream([run.run_id, "step"], ComputeIOType.STDERR):
        return run.run_id


def test_an_old_run_goes_with_what_its_process_printed(tmp_path: Path) -> None:
    with DagsterInstance.local_temp(str(tmp_path)) as instance:
        run_id = _finished_run(instance)
        tomorrow = datetime.now(UTC) + timedelta(days=1)
        assert runs_finished_before(instance, tomorrow, limit=10) == [run_id]
        assert list(tmp_path.rglob(f"{run_id}/**/*.err"))
        remove_run(instance, run_id)
        assert runs_finished_before(instance, tomorrow, limit=10) == []
        assert not list(tmp_path.rglob(f"{run_id}/**/*.err"))
