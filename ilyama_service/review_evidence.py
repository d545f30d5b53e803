"""The evidence of a review: what changed, who sends it, what waits, and what would come of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from ilyama_protocol.fingerprint import SchemaColumn
from ilyama_protocol.governance.bindings import Actions, mirrored
from ilyama_protocol.governance.dry_run import (
    DryRun,
    StagedRow,
    dry_run,
    touched_assets,
    touched_keys,
)
from ilyama_resources.delta.staged_samples import Sampled, staged_sample
from ilyama_resources.delta.unreadable import Unreadable
from ilyama_resources.postgres import Transaction
from ilyama_resources.postgres.governance.reviews import Review, Sharer

MOST_ROWS = 10_000
MOST_BYTES = 64 * 1024 * 1024
"""A dry run looks at no more rows and bytes than these; it says so when there are more."""

MOST_NAMES = 100
"""So many devices are named; all are counted."""


class Senders(msgspec.Struct):
    """The devices that share the review's schema, and what firmware they run."""

    count: int
    devices: list[str]
    firmware_versions: dict[str, int]


class Staged(msgspec.Struct):
    """What is set aside of the schema, over all its senders."""

    rows: int
    bytes: int


class Downstream(msgspec.Struct):
    """What an approval would feed."""

    keys: list[str]
    assets: list[str]


class Trial(msgspec.Struct):
    """A dry run; not `complete` when there are more rows than it looked at."""

    complete: bool
    result: DryRun


class Evidence(msgspec.Struct):
    """Everything that a person goes by."""

    diff: dict[str, Any]
    last_accepted: str | None
    last_accepted_columns: list[SchemaColumn] | None
    senders: Senders
    staged: Staged
    downstream: Downstream
    dry_run: Trial
    waiting: int
    """Further schemas of the lineage that wait until there is room for a review of them."""
    unreadable: list[str]
    """Files of staged rows that cannot be read: the dry run is without what they hold."""


def evidence_of(
    tx: Transaction, review: Review, warehouse: Path, *, actions: Actions | None = None
) -> Evidence:
    """The evidence of a review under the given actions, or when every column is mirrored."""
    chosen = mirrored(review.column_names) if actions is None else actions
    alike = tx.reviews.alike(review)
    devices = sorted({other.device_id for other in alike})
    sums = tx.backlog.of_schema(review.source_table, review.schema_hash, device_ids=devices)
    unreadable = Unreadable(warehouse)
    sample = staged_sample(warehouse, sums, unreadable, most=MOST_ROWS, most_bytes=MOST_BYTES)
    rows = _typed(tx, review, sample)
    staged = Staged(sum(s.rows for s in sums), sum(s.bytes for s in sums))
    table, last = review.source_table, review.evidence.get("last_accepted")
    return Evidence(
        diff=review.evidence.get("diff", {}),
        last_accepted=last,
        last_accepted_columns=None if last is None else tx.device_states.columns_of(table, last),
        senders=_senders(alike, devices),
        staged=staged,
        downstream=_downstream(review, chosen, rows),
        dry_run=Trial(len(rows) == staged.rows, dry_run(rows, review.columns, chosen)),
        waiting=tx.review_queue.waiting((review.device_id, review.source_table)),
        unreadable=unreadable.files,
    )


def _typed(tx: Transaction, review: Review, sample: Sequence[Sampled]) -> list[StagedRow]:
    """Rows as a release reads them: with their columns only if these were announced before."""
    devices = {sampled.device_id for sampled in sample}
    since = tx.device_states.bound_since(
        review.source_table, review.schema_hash, device_ids=devices
    )
    return [
        row._replace(typed=since.get(device_id, received_at + 1) <= received_at)
        for device_id, received_at, row in sample
    ]


def _senders(alike: Sequence[Sharer], devices: Sequence[str]) -> Senders:
    newest = {review.device_id: review.firmware_version for review in alike}
    return Senders(len(devices), list(devices[:MOST_NAMES]), dict(Counter(newest.values())))


def _downstream(review: Review, actions: Actions, rows: Sequence[StagedRow]) -> Downstream:
    """What would be fed; nothing, as long as every row would stay staged."""
    assets = touched_assets(rows, review.columns, actions)
    keys = touched_keys(review.source_table, review.column_names, actions) if assets else []
    return Downstream(keys, assets)
