"""The evidence of a review: what changed, who sends it, what waits, and what would come of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ilyama_protocol.fingerprint import SchemaColumn
from ilyama_protocol.governance.bindings import Actions, mirrored
from ilyama_protocol.governance.dry_run import (
    DryRun,
    SeenRows,
    StagedRow,
    dry_run,
    touched_assets,
    touched_keys,
)
from ilyama_resources.delta.staged_samples import Sampled, SampledSum, staged_sample
from ilyama_resources.delta.unreadable import Unreadable
from ilyama_resources.postgres import Transaction
from ilyama_resources.postgres.governance.reviews import Review, Sharer
from ilyama_resources.postgres.staged_backlog import BacklogSize
from ilyama_service.sampled_sums import sampled_sums

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
    """A dry run: at how many of all rows it looked, from how many of all devices that have any."""

    complete: bool
    rows: int
    of_rows: int
    devices: int
    of_devices: int
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
    staged = tx.backlog.of_schema(*review.place, device_ids=devices)
    looked_at = sampled_sums(tx, review, staged)
    unreadable, seen = Unreadable(warehouse), SeenRows(review.columns, chosen)
    sample = _Sample(tx, review, looked_at)
    rows = seen.passing(sample.typed(staged_sample(warehouse, looked_at, unreadable)))
    result = dry_run(rows, review.columns, chosen)
    table, last = review.source_table, review.evidence.get("last_accepted")
    return Evidence(
        diff=review.evidence.get("diff", {}),
        last_accepted=last,
        last_accepted_columns=None if last is None else tx.device_states.columns_of(table, last),
        senders=_senders(alike, devices),
        staged=Staged(sum(s.rows for s in staged), sum(s.bytes for s in staged)),
        downstream=_downstream(review, chosen, seen),
        dry_run=_trial(result, staged, devices=len(sample.devices)),
        waiting=tx.review_queue.waiting((review.device_id, review.source_table)),
        unreadable=unreadable.files,
    )


class _Sample:
    """Rows as a release reads them: with their columns only if these were announced before."""

    def __init__(self, tx: Transaction, review: Review, chosen: Sequence[SampledSum]) -> None:
        devices = {one.sum.device_id for one in chosen}
        self._since = tx.device_states.bound_since(*review.place, device_ids=devices)
        self.devices: set[str] = set()
        """Those of which a row was looked at."""

    def typed(self, sample: Iterable[Sampled]) -> Iterator[StagedRow]:
        for device_id, received_at, row in sample:
            self.devices.add(device_id)
            since = self._since.get(device_id, received_at + 1)
            yield row._replace(typed=since <= received_at)


def _trial(result: DryRun, staged: Sequence[BacklogSize], *, devices: int) -> Trial:
    of_rows = sum(size.rows for size in staged)
    return Trial(result.rows == of_rows, result.rows, of_rows, devices, len(staged), result)


def _senders(alike: Sequence[Sharer], devices: Sequence[str]) -> Senders:
    newest = {review.device_id: review.firmware_version for review in alike}
    return Senders(len(devices), list(devices[:MOST_NAMES]), dict(Counter(newest.values())))


def _downstream(review: Review, actions: Actions, seen: SeenRows) -> Downstream:
    """What would be fed; nothing, as long as every row would stay staged."""
    assets = touched_assets(seen, review.columns, actions)
    keys = touched_keys(review.source_table, review.column_names, actions) if assets else []
    return Downstream(keys, assets)
