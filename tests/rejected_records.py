"""Rejected messages in the tables and the records, as a drain leaves them, but without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ilyama_assets.drains.encoding import Encoder
from ilyama_assets.drains.rejecting import without_bytes
from ilyama_assets.drains.task import write_tables
from ilyama_assets.tables import RAW_BATCHES, REJECTED_BATCHES
from ilyama_protocol.intake.engine import Device, IntakeEngine
from ilyama_protocol.intake.outcomes import Message, Origin
from ilyama_protocol.intake.state import DeviceState
from ilyama_resources.delta.data_files import by_table
from ilyama_resources.postgres.rejections import Rejection, RejectionFilter
from tests.platform import Platform

FIRMWARE = "2.1"


def reject(platform: Platform, messages: Sequence[Message], *, drain_id: int) -> list[Rejection]:
    """Let a drain reject messages of one device, and return what is known of them."""
    engine = IntakeEngine(Device("acme/dev-1", FIRMWARE), DeviceState())
    for message in messages:
        engine.decide(message)
    tables = Encoder(drain_id, Origin.LIVE).encode(engine.decisions.release())
    kept = {name: [tables[name]] for name in (RAW_BATCHES.name, REJECTED_BATCHES.name)}
    warehouse = platform.warehouse
    for contract in (RAW_BATCHES, REJECTED_BATCHES):
        warehouse.ensure(contract)
    files = write_tables(Path(warehouse.root), kept, stem=f"drain-{drain_id}")
    for table, written in by_table(files).items():
        warehouse.add(table, drain_id, written)
    with platform.gateway.transaction() as tx:
        tx.rejections.add(without_bytes(tables[REJECTED_BATCHES.name]))
        tx.commit()
        known = tx.rejections.newest(RejectionFilter(), limit=1000)
    mine = [rejection for rejection in known if rejection.drain_id == drain_id]
    return sorted(mine, key=lambda rejection: rejection.position)
