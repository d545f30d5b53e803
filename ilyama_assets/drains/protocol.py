"""The drain protocol: open → decide → seal → commit → close.

A crash anywhere leaves the drain unfinished, and the next run goes on from its last step. Until it
is sealed nothing is fixed and nothing visible, so it is simply decided again. Once sealed it is
never decided again: commits and close repeat what the seal says, each of them idempotent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ilyama_assets.drains.closing import close_drain
from ilyama_assets.drains.deciding import Decider
from ilyama_assets.drains.errors import DrainHeld, DrainInterrupted, ReleaseFailed, WarehouseAhead
from ilyama_assets.drains.orders import WorkOrder
from ilyama_assets.drains.planning import Plan, plan_drain, plan_release
from ilyama_assets.drains.recalling import recall_rejections
from ilyama_assets.drains.replay import replay_day
from ilyama_assets.drains.sealing import (
    IntegrityReport,
    Seal,
    decode_seal,
    encode_seal,
    integrity_of,
    make_seal,
)
from ilyama_assets.tables import INTAKE_TABLES
from ilyama_protocol.intake.outcomes import Origin
from ilyama_resources.build import LOADED_BUILD
from ilyama_resources.delta.data_files import DataFile, by_table
from ilyama_resources.delta.staged_files import staged_files
from ilyama_resources.delta.warehouse import Warehouse
from ilyama_resources.faults import crash_point, poison
from ilyama_resources.landing.directory import Landing
from ilyama_resources.postgres import Gateway
from ilyama_resources.postgres.drains import Drain, DrainState
from ilyama_resources.postgres.staged_backlog import BacklogCaps
from ilyama_resources.settings import Settings
from ilyama_resources.spark.sessions import gist, is_connection_lost

PATIENT_ATTEMPTS = 3
"""After so many failed attempts to decide a drain, its devices are decided apart."""

DRAIN_LOCK = "drain"

_COMMITTERS = 3
"""Tables that are committed to at a time: each holds a connection of the record's pool."""


@dataclass(frozen=True)
class DrainReport:
    """What one drain did."""

    drain: Drain
    seal: Seal
    integrity: IntegrityReport
    versions: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Intake:
    """The parts that a drain works with."""

    settings: Settings
    gateway: Gateway
    landing: Landing
    warehouse: Warehouse
    session: Callable[[], SparkSession]

    def prepare(self) -> None:
        """Make the tables, find stray segments, and refuse records older than the tables."""
        for contract in INTAKE_TABLES:
            self.warehouse.ensure(contract)
        self.landing.register_found(self.gateway)
        self._refuse_older_records()
        recall_rejections(self.gateway, self.warehouse)

    def _refuse_older_records(self) -> None:
        # The tables first: another run may open and commit a drain between the two readings.
        recorded = {table.name: self.warehouse.recorded(table.name) for table in INTAKE_TABLES}
        with self.gateway.transaction() as tx:
            tx.warehouses.set_staleness(self.settings.stale_after_h)
            last = tx.drains.last_id()
            tx.commit()
        for table, drain_id in recorded.items():
            if drain_id > last:
                raise WarehouseAhead(
                    f"{table} has taken drain {drain_id}, but Postgres knows only {last}: "
                    "it was restored from an older backup. Restore the newer one."
                )

    @contextmanager
    def alone(self, *, wait: bool = True) -> Iterator[None]:
        """Be the only one who drains; raises LockTaken when another is at it and wait is off."""
        with self.gateway.lock(DRAIN_LOCK, wait=wait):
            yield

    def waits(self, day: date) -> bool:
        """Whether something of a day waits, or staged rows do, or an unfinished drain."""
        with self.gateway.transaction() as tx:
            waiting = tx.segments.pending(day) or tx.backlog.can_release()
            return tx.drains.unfinished() is not None or bool(waiting)

    def waits_elsewhere(self, day: date) -> bool:
        """Whether something of another day waits to be drained."""
        with self.gateway.transaction() as tx:
            return any(waiting.day != day for waiting in tx.segments.pending())

    def drain(self, day: date | None = None) -> DrainReport | None:
        """Finish the unfinished drain or take the next; None when nothing waits."""
        drain = self._open(day)
        return None if drain is None else self.finish(drain)

    def finish(self, drain: Drain) -> DrainReport:
        """Bring an opened drain to its end, from wherever it stands."""
        if drain.state is DrainState.OPEN:
            is_replay = drain.origin == Origin.DAY
            seal = self._replayed(drain) if is_replay else self._decide(drain)
            self._seal(drain, seal)
        else:
            seal = self._stored_seal(drain)
        return self._commit_and_close(drain, seal)

    def replay(self, day: date) -> DrainReport:
        """Derive a day's datapoints again and add what is missing."""
        return self.finish(self._open_without_segments(day, Origin.DAY))

    def releases(self) -> bool:
        """Whether staged rows could be released, and no drain is unfinished."""
        with self.gateway.transaction() as tx:
            return tx.drains.unfinished() is None and tx.backlog.can_release()

    def release(self, day: date) -> DrainReport | None:
        """Materialize staged rows that nothing holds any more, up to the size of a drain."""
        if not self.releases():
            return None
        return self.finish(self._open_without_segments(day, Origin.STAGED))

    def _open(self, day: date | None) -> Drain | None:
        crash_point("open.before")
        with self.gateway.transaction() as tx:
            unfinished = tx.drains.unfinished()
            if unfinished is not None:
                _refuse_held(unfinished)
                return unfinished
            waiting = tx.segments.pending(day)
            if not waiting:
                return None
            drain_id = tx.drains.last_id() + 1
            tx.drains.open(drain_id, waiting[0].day, origin=waiting[0].origin)
            taken = tx.segments.take(
                waiting[0].day,
                drain_id,
                at_most_bytes=self.settings.drain_max_bytes,
                origin=waiting[0].origin,
            )
            tx.drains.measure(
                drain_id,
                segments=len(taken),
                messages=sum(segment.messages for segment in taken),
                size=sum(segment.bytes for segment in taken),
            )
            drain = tx.drains.find(drain_id)
            tx.commit()
        crash_point("open.after")
        return drain

    def _open_without_segments(self, day: date, origin: Origin) -> Drain:
        crash_point("open.before")
        with self.gateway.transaction() as tx:
            drain_id = tx.drains.last_id() + 1
            tx.drains.open(drain_id, day, origin=origin)
            drain = tx.drains.find(drain_id)
            tx.commit()
        crash_point("open.after")
        if drain is None:
            raise LookupError(f"there is no drain {drain_id}")
        return drain

    def _decide(self, drain: Drain) -> Seal:
        with self.gateway.transaction() as tx:
            attempt = tx.drains.attempt(drain.drain_id)
            segments = tx.segments.of_drain(drain.drain_id)
            tx.commit()
        paths = [self.landing.path(segment.segment_id, segment.day) for segment in segments]
        crash_point("decide.before")
        with self._forgiving(drain):
            seal = self._decide_once(drain, paths, attempt=attempt)
        crash_point("decide.after")
        return seal

    def _plan(self, paths: list[Path]) -> Plan:
        """Who sent the messages of a drain; one without any releases staged rows."""
        if not paths:
            size = self.settings.drain_max_bytes
            return plan_release(self.gateway, at_most_bytes=size, policy=self.settings.policy)
        return plan_drain(
            self.gateway,
            paths,
            auto_register=self.settings.auto_register,
            policy=self.settings.policy,
        )

    def _decide_once(self, drain: Drain, paths: list[Path], *, attempt: int) -> Seal:
        plan = self._plan(paths)
        template = WorkOrder(
            number=0,
            drain_id=drain.drain_id,
            attempt=attempt,
            build=LOADED_BUILD,
            segments=[str(path) for path in paths],
            warehouse=str(self.warehouse.root),
            payload_max_bytes=self.settings.payload_max_bytes,
            batch_max_rows=self.settings.batch_max_rows,
            served_instances=self.settings.served_instances,
            devices=[],
            metric_days=self.settings.retention_metric_days,
            state_days=self.settings.retention_state_days,
            origin=Origin(drain.origin),
            poison=poison(),
            projects=dict(plan.projects),
            staged_files=staged_files(self.warehouse, plan.released),
            materialization_failures=self.settings.materialization_failures,
        )
        tasks = self.settings.cores
        decider = Decider(self.session(), self.warehouse, template, tasks=tasks)
        apart = attempt > PATIENT_ATTEMPTS
        return make_seal(decider.decide_in_agreement(plan.devices, apart=apart), plan)

    @contextmanager
    def _forgiving(self, drain: Drain) -> Iterator[None]:
        """Do not count an attempt that failed for no fault of the drain's messages."""
        try:
            yield
        except ReleaseFailed as error:
            self._give_up(drain, error)
            raise
        except DrainInterrupted as error:
            with self.gateway.transaction() as tx:
                tx.drains.forgive_attempt(drain.drain_id, note=str(error))
                tx.commit()
            raise
        except (pa.ArrowException, FileNotFoundError) as error:
            self._hold(drain, f"a segment of it cannot be read: {error}")
        except PySparkException as error:
            reason = f"Spark failed: {gist(error)}"
            with self.gateway.transaction() as tx:
                if is_connection_lost(error):
                    tx.drains.forgive_attempt(drain.drain_id, note=reason)
                else:
                    tx.drains.note(drain.drain_id, reason)
                tx.commit()
            raise DrainInterrupted(
                f"drain {drain.drain_id} could not be decided and will be tried again. {reason}"
            ) from error

    def _give_up(self, drain: Drain, error: ReleaseFailed) -> None:
        """Rows that are not there must not stop intake; nor are they looked for every time."""
        with self.gateway.transaction() as tx:
            tx.drains.abandon(drain.drain_id, f"the release was given up: {error}")
            tx.backlog.miss(error.missing)
            tx.commit()

    def _replayed(self, drain: Drain) -> Seal:
        """A replay that fails is given up: it has changed nothing and must not stop intake."""
        try:
            return replay_day(
                self.session(), self.gateway, self.warehouse, drain, limits=self.settings.limits
            )
        except PySparkException as error:
            note = f"the replay of {drain.day} failed and was given up: {gist(error)}"
            with self.gateway.transaction() as tx:
                tx.drains.abandon(drain.drain_id, note)
                tx.commit()
            raise DrainInterrupted(note) from error

    def _seal(self, drain: Drain, seal: Seal) -> None:
        integrity = integrity_of(seal, received=_received(drain, seal))
        if integrity.breaches:
            self._hold(drain, "; ".join(integrity.breaches))
        crash_point("seal.before")
        with self.gateway.transaction() as tx:
            tx.drains.seal(drain.drain_id, encode_seal(seal))
            tx.commit()
        crash_point("seal.after")

    def _hold(self, drain: Drain, note: str) -> NoReturn:
        with self.gateway.transaction() as tx:
            tx.drains.hold(drain.drain_id, note)
            tx.commit()
        raise DrainHeld(_held_sentence(drain.drain_id, note))

    def _stored_seal(self, drain: Drain) -> Seal:
        with self.gateway.transaction() as tx:
            return decode_seal(tx.drains.sealed_body(drain.drain_id))

    def _commit_and_close(self, drain: Drain, seal: Seal) -> DrainReport:
        files = sorted(by_table(seal.files).items())
        with ThreadPoolExecutor(_COMMITTERS) as committers:
            versions = dict(committers.map(lambda of_table: self._commit(drain, *of_table), files))
        crash_point("close.before")
        with self.gateway.transaction() as tx:
            close_drain(
                tx,
                drain,
                seal,
                served_instances=self.settings.served_instances,
                caps=self._caps(),
                open_reviews=self.settings.open_reviews_per_lineage,
            )
            closed = tx.drains.find(drain.drain_id)
            tx.commit()
        crash_point("close.after")
        integrity = integrity_of(seal, received=_received(drain, seal))
        return DrainReport(closed or drain, seal, integrity, versions)

    def _commit(self, drain: Drain, table: str, files: Sequence[DataFile]) -> tuple[str, int]:
        crash_point("commit.before")
        with self.gateway.lock(f"table {table}"):
            version = self.warehouse.add(table, drain.drain_id, files)
        crash_point("commit.after")
        return table, version

    def _caps(self) -> BacklogCaps:
        settings = self.settings
        return BacklogCaps(
            settings.staged_backlog_rows,
            settings.staged_backlog_bytes,
            settings.staged_backlog_resume,
        )


def _received(drain: Drain, seal: Seal) -> int:
    """How many messages must be accounted for; a drain without segments balances in itself."""
    return drain.messages if drain.segments else seal.findings.messages


def _refuse_held(drain: Drain) -> None:
    if drain.state is DrainState.HELD:
        raise DrainHeld(_held_sentence(drain.drain_id, drain.note or ""))


def _held_sentence(drain_id: int, note: str) -> str:
    return (
        f"drain {drain_id} is held, and intake with it: {note}. Nothing of it is visible. "
        f"Look at `ilyama drains`, then `ilyama drains --release {drain_id}`."
    )
