"""A Postgres that restarts forgets who held which lock: two may work on one drain for a while.

The second to come is told so in a sentence, and changes nothing.
"""

import io
from collections.abc import Callable
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from sqlalchemy import create_engine, text

from ilyama_assets.drains.closing import close_drain
from ilyama_assets.drains.encoding import ROW_COUNTS
from ilyama_assets.drains.orders import Findings
from ilyama_assets.drains.sealing import Seal
from ilyama_assets.drains.totals import GROUP, encoded_totals
from ilyama_resources.postgres import Gateway, copying
from ilyama_resources.postgres.derived_runs import DerivedRun, DerivedRunMoved
from ilyama_resources.postgres.drains import DrainMoved, Drains, DrainState
from ilyama_resources.postgres.gateway import GatewayUnavailable
from tests.platform import Platform

TODAY = datetime.now(UTC).date()
DONE = 1


@pytest.fixture
def gateway(platform_without_spark: Platform) -> Gateway:
    return platform_without_spark.gateway


def open_drain(gateway: Gateway, drain_id: int = DONE) -> None:
    with gateway.transaction() as tx:
        tx.drains.open(drain_id, TODAY, origin="live")
        tx.commit()


def one_line() -> Seal:
    """A drain of one message."""
    line = dict.fromkeys(GROUP, "x") | dict.fromkeys(ROW_COUNTS, 1)
    ledger = [encoded_totals([pa.Table.from_pylist([line])])]
    return Seal([], [], [], [], ledger, {}, [], Findings())


def close(gateway: Gateway, drain_id: int = DONE) -> None:
    with gateway.transaction() as tx:
        drain = tx.drains.find(drain_id)
        assert drain is not None
        close_drain(tx, drain, one_line(), served_instances=10)
        tx.commit()


@pytest.fixture
def finished(gateway: Gateway) -> Gateway:
    """Records of a drain that another process has finished."""
    open_drain(gateway)
    with gateway.transaction() as tx:
        tx.drains.seal(DONE, b"sealed")
        tx.commit()
    close(gateway)
    return gateway


@pytest.mark.parametrize("drain_id", [1, 2], ids=["the same", "the next"])
def test_a_drain_is_not_opened_beside_another(gateway: Gateway, drain_id: int) -> None:
    open_drain(gateway)
    with pytest.raises(DrainMoved, match=f"drain {drain_id} cannot be opened"):
        open_drain(gateway, drain_id)


@pytest.mark.parametrize(
    "step",
    [
        lambda drains: drains.attempt(DONE),
        lambda drains: drains.forgive_attempt(DONE, note="Spark is gone"),
        lambda drains: drains.note(DONE, "Spark failed"),
        lambda drains: drains.measure(DONE, segments=9, messages=9, size=9),
        lambda drains: drains.seal(DONE, b"another"),
        lambda drains: drains.sealed_body(DONE),
        lambda drains: drains.close(DONE),
        lambda drains: drains.abandon(DONE, "the replay failed"),
        lambda drains: drains.hold(DONE, "does not add up"),
    ],
    ids=["attempt", "forgive", "note", "measure", "seal", "read", "close", "abandon", "hold"],
)
def test_no_step_is_made_on_a_drain_that_is_done(
    finished: Gateway, step: Callable[[Drains], object]
) -> None:
    with finished.transaction() as tx:
        before = tx.drains.find(DONE)
        with pytest.raises(DrainMoved, match="drain 1 is no longer"):
            step(tx.drains)
        assert tx.drains.find(DONE) == before
    assert before is not None
    assert before.state is DrainState.DONE


def test_a_drain_is_closed_once_with_all_its_sums(finished: Gateway) -> None:
    with pytest.raises(DrainMoved, match="drain 1 is no longer sealed"):
        close(finished)


def test_a_run_of_a_derived_table_is_opened_once(gateway: Gateway) -> None:
    run = DerivedRun("current_value", 1, 1, 1)
    with gateway.transaction() as tx:
        tx.derived_runs.open(run)
        with pytest.raises(DerivedRunMoved, match="run 1 of current_value"):
            tx.derived_runs.open(run)


class _Fatal(io.StringIO):
    """Rows in the midst of which Postgres ends the connections of its clients."""

    def __init__(self, url: str) -> None:
        super().__init__("x\n" * 10)
        self._url = url

    def read(self, size: int | None = -1) -> str:
        engine = create_engine(self._url)
        with engine.connect() as connection:
            others = "datname = current_database() AND pid <> pg_backend_pid()"
            connection.execute(
                text(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE {others}")
            )
        engine.dispose()
        return super().read(size)


def test_a_connection_that_is_lost_in_the_midst_of_rows_is_told_in_a_sentence(
    finished: Gateway, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(copying, "_lines", lambda _: _Fatal(finished.url))
    with (
        pytest.raises(GatewayUnavailable, match=r"terminating connection|server closed"),
        finished.transaction() as tx,
    ):
        tx.ledger.add([])
    assert caplog.records == []
    finished.ping()
