"""The part of a drain that runs on Spark's workers: decide devices, write their files.

Nothing it writes is visible; a task that dies, or runs twice, leaves only files that no commit
will ever name.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from ilyama_assets.drains.encoding import Encoder
from ilyama_assets.drains.integrity import TaskIntegrity, split_by_rules
from ilyama_assets.drains.orders import (
    DeviceDone,
    DeviceNeeds,
    DeviceOrder,
    LineagePaused,
    Products,
    TaskFailed,
    WorkOrder,
    decode_order,
    encode,
    in_portions,
    rejected_numbers,
)
from ilyama_assets.drains.projection import encoded as encoded_values
from ilyama_assets.drains.projection import projected
from ilyama_assets.drains.rejecting import encoded_outcomes, encoded_rejections
from ilyama_assets.drains.staged_reading import (
    StagedBatch,
    StagedRowsMissing,
    read_staged,
    read_undecided,
    staged_batches,
)
from ilyama_assets.drains.totals import encoded_totals
from ilyama_assets.tables import BATCH_LEDGER, KEY_CONFLICTS, REJECTED_BATCHES, TABLES
from ilyama_protocol.governance.policies import NO_PROJECT
from ilyama_protocol.intake.decisions import Decisions
from ilyama_protocol.intake.engine import Device, IntakeEngine
from ilyama_protocol.intake.history import History
from ilyama_protocol.intake.outcomes import (
    CurrentValue,
    CurrentValues,
    Message,
    Outcomes,
)
from ilyama_protocol.intake.schema_intake import SchemaIntake
from ilyama_protocol.intake.schema_rulings import SchemaRulings
from ilyama_protocol.intake.state import DeviceState, decode_state, encode_state
from ilyama_protocol.limits import Limits
from ilyama_resources.build import LOADED_BUILD
from ilyama_resources.delta.data_files import PARTITION, DataFile, write_data_file
from ilyama_resources.delta.staged_files import holding
from ilyama_resources.faults import swallow
from ilyama_resources.landing.segment_files import read_messages
from ilyama_resources.postgres.governance.bindings import PolicyAcceptance
from ilyama_resources.postgres.governance.shelved_schemas import ShelvedSchema
from ilyama_resources.postgres.staged_backlog import StagedSum

PORTION = 50_000
"""Decided messages and rows are encoded in portions, so that a large drain fits a small worker."""

LONGEST_SERVED_INSTANCE = 2_000
"""A primary key longer than this is no name that anybody asks a current value by."""

PRODUCTS_SCHEMA = pa.schema([("products", pa.binary())])
PRODUCTS_DDL = "products binary"
STALE_BUILD = "the worker runs another build of the platform"


def decide_orders(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Carry out the work orders of a partition (for `mapInArrow`)."""
    for batch in batches:
        for body in batch.column("body"):
            for products in in_portions(carry_out(decode_order(body.as_py()))):
                yield pa.RecordBatch.from_arrays(
                    [pa.array([encode(products)], pa.binary())], schema=PRODUCTS_SCHEMA
                )


def carry_out(order: WorkOrder) -> Products:
    """Decide the devices of one order and write their files."""
    if order.build != LOADED_BUILD:
        return Products(failure=TaskFailed(STALE_BUILD))
    try:
        return _Task(order).run()
    except StagedRowsMissing as error:
        return Products(failure=TaskFailed(str(error), error.missing))
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO):
            return Products(failure=TaskFailed(f"the disk does not take more: {error.strerror}"))
        raise


@dataclass
class _Encoded:
    """What one device gives, kept apart until it is sure to count."""

    tables: dict[str, list[pa.Table]] = field(default_factory=dict)

    def add(self, tables: dict[str, pa.Table]) -> None:
        for name, table in tables.items():
            self.tables.setdefault(name, []).append(table)


class _Task:
    def __init__(self, order: WorkOrder) -> None:
        self._order = order
        self._encoder = Encoder(order.drain_id, order.origin)
        self._limits = Limits(
            order.payload_max_bytes, order.batch_max_rows, order.metric_days, order.state_days
        )
        self._encoded = _Encoded()
        self._products = Products()
        self._current: list[pa.Table] = []
        self._values: list[tuple[str, CurrentValues]] = []
        self._outcomes = Outcomes()
        self._waiting = 0
        self._out_of_window = 0
        self._replaying: set[str] = set()
        """Segments of messages that replay rejections."""

    def run(self) -> Products:
        self._decide_all()
        self._judge()
        self._sum_up()
        order = self._order
        stem = f"drain-{order.drain_id:08}-{order.attempt}-{order.number:03}-{uuid4().hex}"
        files = write_tables(Path(order.warehouse), self._encoded.tables, stem=stem)
        self._products.files = list(files)
        return self._products

    def _decide_all(self) -> None:
        messages = _messages_by_topic(self._order)
        staged, undecided = _staged_by_device(self._order)
        for device in self._order.devices:
            name = device.device_id or ""
            arrived = [*_in_arrival_order(messages, device), *undecided.pop(name, ())]
            self._replaying |= {m.segment_id for m in arrived if m.rejection_id is not None}
            self._decide(device, staged.pop(name, None), arrived)
        self._write_down()

    def _judge(self) -> None:
        """Split off rows that break a rule, and look whether the others may become visible."""
        tables = self._encoded.tables
        for name, parts in tables.items():
            tables[name] = [pa.concat_tables(parts).unify_dictionaries()]
        self._encoded.tables = split_by_rules(tables)
        integrity = TaskIntegrity()
        integrity.inspect(self._encoded.tables)
        integrity.findings.out_of_window = self._out_of_window
        self._products.findings = integrity.findings

    def _sum_up(self) -> None:
        ledger = self._encoded.tables.get(BATCH_LEDGER.name, [])
        rejected = self._encoded.tables.get(REJECTED_BATCHES.name, [])
        self._products.current = list(encoded_values(self._current))
        self._products.ledger = encoded_totals(ledger)
        self._products.rejections = encoded_rejections(rejected)
        if self._replaying:
            self._products.replayed = encoded_outcomes(ledger, self._replaying)

    def _decide(
        self, order: DeviceOrder, staged: pa.Table | None, messages: Iterable[Message]
    ) -> None:
        state = decode_state(order.state.encode()) if order.state else DeviceState()
        for table in order.resets:
            state.begin_era(table, self._order.drain_id - 1)
        engine = IntakeEngine(
            Device(order.device_id, order.firmware_version),
            state,
            history=_history(order),
            limits=self._limits,
            origin=self._order.origin,
            rulings=self._rulings(order),
            inspect=self._inspect,
        )
        decisions, kept = engine.decisions, _Encoded()
        arrivals: Iterable[Message | StagedBatch] = chain(_released(order, staged, state), messages)
        for arrived in arrivals:
            _take(engine, arrived, stage_with=order.stage_with)
            if decisions.needs:
                kept.tables.clear()
                decisions.release()
            elif decisions.outcomes.size > PORTION:
                kept.add(self._encoder.encode(decisions.release()))
        if decisions.needs:
            self._products.needs.append(DeviceNeeds(order.device_id, decisions.needs))
        else:
            self._keep(order, engine, kept)

    def _rulings(self, order: DeviceOrder) -> SchemaRulings:
        project = self._order.projects.get(order.rules.project_id or NO_PROJECT)
        most = self._order.materialization_failures
        return SchemaRulings(order.rules, project, circuit_opens_at=most)

    def _keep_schemas(self, device_id: str, schemas: SchemaIntake) -> None:
        self._products.reviews += schemas.reviews.values()
        self._products.shelved += [
            ShelvedSchema(device_id, *place, bound) for place, bound in schemas.shelved.items()
        ]
        self._products.claims += schemas.claims
        self._products.resumed += [(device_id, table) for table in schemas.resumed]
        project = schemas.project_id
        self._products.accepted += [
            PolicyAcceptance(project, *accepted, device_id=device_id)
            for accepted in schemas.accepted_by_policy
        ]

    def _write_down(self) -> None:
        """Encode what was decided of many small devices together."""
        self._encoded.add(self._encoder.encode(self._outcomes))
        self._outcomes = Outcomes()
        self._waiting = 0
        if self._values:
            self._current.append(projected(self._values))
            self._values = []

    def _inspect(self, message: Message) -> None:
        swallow(message.payload, poison=self._order.poison)

    def _keep(self, order: DeviceOrder, engine: IntakeEngine, kept: _Encoded) -> None:
        decisions = engine.decisions
        if decisions.conflicts:
            conflicts = self._encoder.conflicts(
                decisions.conflicts,
                device_id=order.device_id,
                since=decisions.conflicts_since,
            )
            kept.add({KEY_CONFLICTS.name: conflicts})
        for name, parts in kept.tables.items():
            self._encoded.tables.setdefault(name, []).extend(parts)
        self._out_of_window += decisions.out_of_window
        released = decisions.release()
        self._outcomes.extend(released)
        self._waiting += released.size
        if self._waiting > PORTION:
            self._write_down()
        self._products.staged += _backlog(order.device_id or "", decisions, self._order.drain_id)
        if order.device_id is None:
            return
        self._keep_schemas(order.device_id, decisions.schemas)
        self._products.pauses += [LineagePaused(order.device_id, *p) for p in decisions.pauses]
        after = engine.state_after(self._order.drain_id)
        self._products.sequences += [(order.device_id, told) for told in engine.sequences]
        self._products.rejected += map(rejected_numbers, decisions.refused)
        self._products.done.append(
            DeviceDone(order.device_id, encode_state(after).decode(), engine.learnt_firmware)
        )
        self._keep_current(order.device_id, engine)

    def _keep_current(self, device_id: str, engine: IntakeEngine) -> None:
        self._products.keys.update((key, kind.value) for key, kind in engine.decisions.keys.items())
        instances: dict[str, set[str]] = {}
        current = engine.current
        for of_key in current.values():
            instances.setdefault(_table_of(of_key), set()).update(of_key)
        most = self._order.served_instances
        crowded = {
            table
            for table, found in instances.items()
            if len(found) > most or max(map(len, found)) > LONGEST_SERVED_INSTANCE
        }
        self._products.crowded += [(device_id, table) for table in crowded]
        served = {
            key: of_key for key, of_key in current.items() if _table_of(of_key) not in crowded
        }
        if served:
            self._values.append((device_id, served))


def _take(engine: IntakeEngine, arrived: Message | StagedBatch, *, stage_with: str | None) -> None:
    if isinstance(arrived, Message):
        if stage_with is None:
            engine.decide(arrived)
        else:
            engine.stage(arrived, stage_with)
    elif stage_with is None:
        engine.release(arrived)
    else:
        engine.keep_staged(arrived, stage_with)


def _backlog(device_id: str, decisions: Decisions, drain_id: int) -> list[StagedSum]:
    """What was set aside of a device."""
    return [
        StagedSum(
            device_id, *place, drain_id, rows, decisions.staged_bytes[place], decisions.turns[place]
        )
        for place, rows in decisions.staged_rows.items()
    ]


def _table_of(values: Mapping[str, CurrentValue]) -> str:
    """The table whose column a key stands for; all its values name it."""
    return next(iter(values.values())).source_table


def write_tables(
    warehouse: Path, tables: Mapping[str, list[pa.Table]], *, stem: str
) -> Iterator[DataFile]:
    """Write rows into their tables' directories: one file for each table and day."""
    for name, parts in tables.items():
        rows = pa.concat_tables(parts).unify_dictionaries()
        days = pc.unique(rows[PARTITION]).to_pylist()
        for day in days:
            chosen = rows if len(days) == 1 else rows.filter(pc.equal(rows[PARTITION], day))
            chosen = chosen.drop_columns([PARTITION])
            yield write_data_file(warehouse / name, TABLES[name], chosen, day=day, name=stem)


def _messages_by_topic(order: WorkOrder) -> dict[str, list[Message]]:
    topics = frozenset(topic for device in order.devices for topic in device.topics)
    found: dict[str, list[Message]] = {}
    for path in order.segments:
        for message in read_messages(Path(path), topics=topics):
            found.setdefault(message.topic, []).append(message)
    return found


def _staged_by_device(
    order: WorkOrder,
) -> tuple[dict[str, pa.Table], dict[str, list[Message]]]:
    """What is to be released: rows that were decided, and messages."""
    released = [found for device in order.devices for found in device.released]
    if not released:
        return {}, {}
    files = [file.path for file in holding(order.staged_files, released)]
    return read_staged(files, released), read_undecided(files, released)


def _released(
    order: DeviceOrder, staged: pa.Table | None, state: DeviceState
) -> Iterable[StagedBatch]:
    if staged is None:
        return ()
    return staged_batches(order.device_id or "", staged, rank=state.rank)


def _in_arrival_order(messages: dict[str, list[Message]], device: DeviceOrder) -> list[Message]:
    mine = [message for topic in device.topics for message in messages.pop(topic, ())]
    mine.sort(key=lambda message: (message.landed_at, message.segment_id, message.position))
    return mine


def _history(order: DeviceOrder) -> History | None:
    found = order.history
    if found is None:
        return None
    return History.of(
        stored=found.stored,
        newest=found.newest,
        payloads=found.payloads,
        batches=found.batches,
        points=found.points,
    )
