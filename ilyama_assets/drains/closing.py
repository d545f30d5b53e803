"""Close: one Postgres transaction that makes a committed drain part of the records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
import pyarrow as pa

from ilyama_assets.drains.encoding import ROW_COUNTS
from ilyama_assets.drains.orders import RejectedNumbers
from ilyama_assets.drains.projection import decoded, one_per_identity, without
from ilyama_assets.drains.rejecting import OUTCOMES_SCHEMA, REJECTIONS_SCHEMA
from ilyama_assets.drains.rejecting import decoded as decoded_rows
from ilyama_assets.drains.sealing import Seal
from ilyama_assets.drains.totals import GROUP
from ilyama_protocol.intake.lineage_rulings import PauseReason
from ilyama_protocol.intake.outcomes import Origin
from ilyama_protocol.moments import utc
from ilyama_resources.postgres import Transaction
from ilyama_resources.postgres.current_instances import Lineage
from ilyama_resources.postgres.drains import Drain
from ilyama_resources.postgres.governance.accepted_meanwhile import settle_accepted
from ilyama_resources.postgres.governance.review_queue import MOST_OPEN
from ilyama_resources.postgres.ledger import LedgerTotal
from ilyama_resources.postgres.sequences import RejectedBatch
from ilyama_resources.postgres.staged_backlog import DEFAULT_CAPS, BacklogCaps

_REPLAYING = (Origin.REJECTION, Origin.STAGED)
"""A replay whose message broke the engine is settled when that is released."""


def close_drain(
    tx: Transaction,
    drain: Drain,
    seal: Seal,
    *,
    served_instances: int,
    caps: BacklogCaps = DEFAULT_CAPS,
    open_reviews: int = MOST_OPEN,
) -> None:
    """Mark a drain done, unless another process has, and write everything that it changes."""
    tx.drains.close(drain.drain_id)
    tx.devices.register(seal.newcomers, auto=True)
    tx.devices.learn_firmware(
        (done.device_id, done.firmware_version)
        for done in seal.states
        if done.firmware_version is not None
    )
    # Whoever approves locks governance before keys: in another order two could wait for each other.
    _govern(tx, drain, seal, open_reviews)
    tx.registries.ensure_components(done.device_id for done in seal.states)
    tx.registries.ensure_keys(seal.keys)
    tx.device_states.advance(
        ((done.device_id, done.state) for done in seal.states), drain_id=drain.drain_id
    )
    tx.shelved_schemas.add(seal.shelved)
    tx.sequence_resets.settle(seal.resets)
    _settle_backlog(tx, drain, seal, caps)
    for totals in seal.ledger:
        tx.ledger.add(_ledger_totals(drain, totals))
    _write_rejections(tx, drain, seal)
    tx.sequences.advance(seal.sequences, drain_id=drain.drain_id)
    tx.sequences.note_rejections([_rejected_batch(numbers) for numbers in seal.rejected])
    _advance_current_values(tx, drain, seal, served_instances=served_instances)


def _govern(tx: Transaction, drain: Drain, seal: Seal, open_reviews: int) -> None:
    """A lineage that went back to an accepted schema and then changed again is paused after all."""
    answered: list[Lineage] = []
    if seal.accepted:
        tx.reviews.alone()
        tx.bindings.accept(seal.accepted)
        answered = settle_accepted(tx, seal.accepted)
    tx.reviews.resume_lapsed([*seal.resumed, *answered])
    tx.review_queue.add(seal.reviews, drain_id=drain.drain_id, most=open_reviews)


def _write_rejections(tx: Transaction, drain: Drain, seal: Seal) -> None:
    """Rejections begin their life; those that were replayed go on with it."""
    rejected = decoded_rows(seal.rejections, REJECTIONS_SCHEMA)
    if drain.origin in _REPLAYING:
        tx.rejections.judge_again(rejected)
        outcomes = decoded_rows(seal.replayed, OUTCOMES_SCHEMA)
        tx.rejection_replays.settle(outcomes, drain_id=drain.drain_id)
    if drain.origin != Origin.REJECTION:
        tx.rejections.add(rejected)


def _settle_backlog(tx: Transaction, drain: Drain, seal: Seal, caps: BacklogCaps) -> None:
    """Note what was set aside and released, and pause or resume lineages by what is left."""
    # Whoever closes a circuit does so before asking to retry: else two could wait for each other.
    for paused in seal.pauses:
        lineage = (paused.device_id, paused.source_table)
        tx.pauses.add([lineage], paused.reason, note=paused.note)
    tx.backlog.add(seal.staged)
    tx.backlog.release(seal.released, drain_id=drain.drain_id)
    changed = (*seal.staged, *seal.released)
    touched = {(found.device_id, found.source_table) for found in changed if found.source_table}
    if not touched:
        return
    sizes = tx.backlog.sizes(touched)
    too_much = [size[:2] for size in sizes if size.exceeds(caps)]
    tx.pauses.add(too_much, PauseReason.BACKPRESSURE, note="too much of it is staged")
    tx.pauses.clear([s[:2] for s in sizes if s.is_below(caps)], PauseReason.BACKPRESSURE)


def _advance_current_values(
    tx: Transaction, drain: Drain, seal: Seal, *, served_instances: int
) -> None:
    instances = one_per_identity(decoded(seal.current))
    tx.current_instances.stop_serving(seal.crowded)
    unserved = tx.current_values.unserved_of(instances["owner_id"].unique().to_pylist())
    served = without(instances, unserved)
    grown = tx.current_instances.advance(served, drain_id=drain.drain_id)
    counted = tx.current_instances.recount(_above(served_instances, grown))
    tx.current_instances.stop_serving(_above(served_instances, counted))


def _rejected_batch(numbers: RejectedNumbers) -> RejectedBatch:
    told = msgspec.structs.asdict(numbers)
    first, last, at = told.pop("first"), told.pop("last"), utc(told.pop("received_at"))
    return RejectedBatch(first_number=first, last_number=last, received_at=at, **told)


def _above(limit: int, instances: Mapping[Lineage, int]) -> list[Lineage]:
    return [lineage for lineage, count in instances.items() if count > limit]


def _ledger_totals(drain: Drain, encoded: bytes) -> Iterator[LedgerTotal]:
    """The totals as records of a drain."""
    if not encoded:
        return
    for row in pa.ipc.open_stream(encoded).read_all().to_pylist():
        group = [row[name] for name in GROUP]
        sums = [row[f"{name}_sum"] for name in ROW_COUNTS]
        counted = (drain.day, drain.origin, row["count_all"])
        yield LedgerTotal._make((drain.drain_id, *group, *counted, *sums))
