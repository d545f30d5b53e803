"""Ledger lines in the tables, as a drain leaves them, but without Spark."""

from collections.abc import Sequence

from ilyama_assets.drains.encoding import Encoder
from ilyama_assets.drains.task import write_tables
from ilyama_assets.tables import BATCH_LEDGER
from ilyama_protocol.intake.engine import IntakeEngine
from ilyama_protocol.intake.outcomes import Message, Origin
from ilyama_resources.delta.warehouse import Warehouse


def keep_ledger(
    warehouse: Warehouse,
    engine: IntakeEngine,
    messages: Sequence[Message],
    *,
    drain_id: int,
    origin: Origin = Origin.LIVE,
) -> None:
    """Let a drain decide messages of a device and account for them."""
    warehouse.ensure(BATCH_LEDGER)
    for message in messages:
        engine.decide(message)
    lines = Encoder(drain_id, origin).ledger(engine.decisions.release().ledger)
    stem = f"drain-{drain_id}"
    files = list(write_tables(warehouse.root, {BATCH_LEDGER.name: [lines]}, stem=stem))
    warehouse.add(BATCH_LEDGER.name, drain_id, files)
