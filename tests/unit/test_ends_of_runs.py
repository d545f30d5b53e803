"""A run that the stack stopped is canceled and has not failed; one that died by itself has."""

from collections.abc import Iterator

import pytest
from dagster import DagsterInstance, DagsterRun, DagsterRunStatus, job, op
from dagster._core.test_utils import create_run_for_test

from ilyama_resources.dagster_runs import STOPPED, report_dead, request_ends


@pytest.fixture
def instance() -> Iterator[DagsterInstance]:
    with DagsterInstance.ephemeral() as made:
        yield made


def run_in(instance: DagsterInstance, status: DagsterRunStatus) -> DagsterRun:
    run: DagsterRun = create_run_for_test(instance, job_name="intake", status=status)
    return run


def status_of(instance: DagsterInstance, run: DagsterRun) -> DagsterRunStatus:
    found = instance.get_run_by_id(run.run_id)
    assert found is not None
    return found.status


def told(instance: DagsterInstance, run: DagsterRun) -> list[str]:
    events = [entry.dagster_event for entry in instance.all_logs(run.run_id)]
    return [event.message or "" for event in events if event is not None]


@pytest.mark.parametrize("status", [DagsterRunStatus.STARTING, DagsterRunStatus.STARTED])
def test_a_run_that_the_stack_stopped_is_canceled_with_a_sentence(
    instance: DagsterInstance, status: DagsterRunStatus
) -> None:
    run = run_in(instance, status)
    request_ends(instance)
    assert status_of(instance, run) is DagsterRunStatus.CANCELING
    report_dead(instance, run.run_id)
    assert status_of(instance, run) is DagsterRunStatus.CANCELED
    assert STOPPED in told(instance, run)


def test_a_run_that_died_by_itself_has_failed(instance: DagsterInstance) -> None:
    run = run_in(instance, DagsterRunStatus.STARTED)
    report_dead(instance, run.run_id)
    assert status_of(instance, run) is DagsterRunStatus.FAILURE


def test_what_has_ended_is_left_alone(instance: DagsterInstance) -> None:
    run = run_in(instance, DagsterRunStatus.SUCCESS)
    request_ends(instance)
    report_dead(instance, run.run_id)
    assert status_of(instance, run) is DagsterRunStatus.SUCCESS


def test_an_interrupted_run_that_was_announced_raises_no_failure(
    instance: DagsterInstance,
) -> None:
    @op
    def interrupted() -> None:
        request_ends(instance)
        raise KeyboardInterrupt

    @job
    def stopped() -> None:
        interrupted()

    done = stopped.execute_in_process(instance=instance, raise_on_error=False)
    run = instance.get_run_by_id(done.run_id)
    assert run is not None
    assert run.status is DagsterRunStatus.CANCELED
