"""Derived tables: Spark computes them from the drains since their last run, exactly once each.

A run has a number and a range of drains, both in Postgres before Spark begins. Its MERGE carries
the number as an application transaction, so that doing it again after a crash changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ilyama_resources.delta.data_files import TableContract
from ilyama_resources.delta.warehouse import Warehouse
from ilyama_resources.faults import crash_point
from ilyama_resources.postgres import Gateway, Transaction
from ilyama_resources.postgres.derived_runs import DerivedRun

_TXN_APP = "spark.databricks.delta.write.txnAppId"
_TXN_VERSION = "spark.databricks.delta.write.txnVersion"
INCOMING = "incoming"
_SAME_TRANSACTION = "DELTA_CONCURRENT_TRANSACTION"
FIRST_DRAIN = 1


class Progress:
    """How far a derived asset has come."""

    def __init__(self, asset: str, gateway: Gateway) -> None:
        self._asset = asset
        self._gateway = gateway

    def was_interrupted(self) -> bool:
        """Whether the last run was not closed; the next one repeats its drains and no others."""
        with self._gateway.transaction() as tx:
            return tx.derived_runs.unfinished(self._asset) is not None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Let nobody derive the asset meanwhile."""
        with self._gateway.lock(f"derived {self._asset}"):
            yield

    @contextmanager
    def next_run(self, *, rebuild: bool = False) -> Iterator[DerivedRun]:
        """The drains to take up now; leaving without an error closes the run."""
        with self.alone():
            run = self._open(rebuild=rebuild)
            yield run
            crash_point("derived_close.before")
            with self._gateway.transaction() as tx:
                tx.derived_runs.close(run)
                self._settle(tx, run)
                tx.commit()

    def _open(self, *, rebuild: bool) -> DerivedRun:
        with self._gateway.transaction() as tx:
            unfinished = tx.derived_runs.unfinished(self._asset)
            if unfinished is not None:
                return unfinished
            last = tx.derived_runs.last(self._asset)
            first = FIRST_DRAIN if rebuild else last.to_drain + 1
            run = DerivedRun(self._asset, last.number + 1, first, tx.drains.last_done_id())
            self._begin(tx, run)
            tx.commit()
        return run

    def _begin(self, tx: Transaction, run: DerivedRun) -> None:
        """Open a run that has anything to take up."""
        if run.from_drain <= run.to_drain:
            tx.derived_runs.open(run)

    def _settle(self, tx: Transaction, run: DerivedRun) -> None:
        """Note what else a run has done."""


class DerivedTable(Progress):
    """One derived Delta table and how far it has come."""

    def __init__(
        self,
        contract: TableContract,
        gateway: Gateway,
        warehouse: Warehouse,
        session: SparkSession,
    ) -> None:
        super().__init__(contract.name, gateway)
        self._contract = contract
        self._warehouse = warehouse
        self._session = session
        self._warehouse.ensure(contract)

    def merge(
        self,
        incoming: DataFrame,
        run: DerivedRun,
        *,
        on: Sequence[str],
        newer: str,
        ties: Sequence[str] = (),
    ) -> None:
        """Take up rows: new ones, and those newer than what is there.

        Of two that are equally new, the one with the smaller `ties` stays. A run that begins with
        the first drain makes the table anew.
        """
        if run.from_drain > run.to_drain:
            return
        incoming.createOrReplaceTempView(INCOMING)
        target = f"delta.`{self._warehouse.location(self._contract.name)}`"
        same = " AND ".join(f"t.`{name}` = s.`{name}`" for name in on)
        merge = (
            f"MERGE INTO {target} t USING {INCOMING} s ON {same} "
            f"WHEN MATCHED AND {_outdoes(newer, ties)} THEN UPDATE SET * "
            "WHEN NOT MATCHED THEN INSERT *"
        )
        renew = f"INSERT OVERWRITE {target} SELECT * FROM {INCOMING}"
        crash_point("derived_merge.before")
        identity = self._warehouse.transaction_id(self._contract.name)
        with (
            self._gateway.lock(f"table {self._contract.name}"),
            counted_once(self._session, identity, run),
        ):
            write_once(self._session, renew if run.from_drain == FIRST_DRAIN else merge)
        crash_point("derived_merge.after")

    def metadata(self, run: DerivedRun) -> dict[str, Any]:
        """What the asset page shows of a run."""
        location = self._warehouse.location(self._contract.name)
        rows = sum(file.rows for file in self._warehouse.files(self._contract.name))
        return {
            "dagster/row_count": rows,
            "dagster/uri": str(location),
            "drains": f"{run.from_drain} to {run.to_drain}",
            "derived run": run.number,
            "Delta version": self._warehouse.version(self._contract.name),
        }


@contextmanager
def counted_once(session: SparkSession, identity: str, run: DerivedRun) -> Iterator[None]:
    """Let the next statement count only once; the setting must not leak to another one."""
    session.conf.set(_TXN_APP, identity)
    session.conf.set(_TXN_VERSION, str(run.number))
    try:
        yield
    finally:
        session.conf.unset(_TXN_APP)
        session.conf.unset(_TXN_VERSION)


def _outdoes(newer: str, ties: Sequence[str]) -> str:
    is_newer = f"s.`{newer}` > t.`{newer}`"
    if not ties:
        return is_newer
    ours, theirs = (", ".join(f"{side}.`{name}`" for name in ties) for side in "st")
    smaller = f"struct({ours}) < struct({theirs})"
    return f"({is_newer} OR (s.`{newer}` = t.`{newer}` AND {smaller}))"


def write_once(session: SparkSession, statement: str) -> None:
    """Run a statement that carries an application transaction."""
    done_once(lambda: session.sql(statement).collect())


def done_once(write: Callable[[], object]) -> None:
    """Write with an application transaction.

    A statement goes on after its client was killed. When it commits while it is being repeated,
    the repetition is refused; repeated once more it finds the transaction and changes nothing.
    """
    try:
        write()
    except PySparkException as error:
        if _SAME_TRANSACTION not in str(error):
            raise
        write()
