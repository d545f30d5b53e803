"""Which staged rows a dry run looks at while somebody waits: of every device the oldest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ilyama_resources.delta.staged_samples import SampledSum
from ilyama_resources.postgres import Transaction
from ilyama_resources.postgres.governance.reviews import Review
from ilyama_resources.postgres.staged_backlog import BacklogSize, StagedSum

MOST_ROWS = 100_000
MOST_BYTES = 256 * 1024 * 1024
"""To look at so much takes a few seconds; a lineage alone may stage as many rows."""


class Share(NamedTuple):
    """So much is looked at of each device at most."""

    rows: int
    bytes: int


def sampled_sums(
    tx: Transaction, review: Review, staged: Sequence[BacklogSize]
) -> list[SampledSum]:
    """The sums to look at of what the given devices have staged, the oldest first."""
    share = Share(
        fair_share([size.rows for size in staged], MOST_ROWS),
        fair_share([size.bytes for size in staged], MOST_BYTES),
    )
    oldest = tx.backlog.oldest_of_schema(
        *review.place,
        device_ids=[size.device_id for size in staged],
        rows=share.rows,
        most=MOST_ROWS,
    )
    return list(within(oldest, share))


def fair_share(sizes: Sequence[int], most: int) -> int:
    """How much each may have so that all have no more than the most; what some leave, others get.

    Each has something, even if there are more than that.
    """
    left = most
    for place, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - place)
        if size > share:
            return max(share, 1)
        left -= size
    return max(sizes, default=0)


def within(sums: Sequence[StagedSum], share: Share) -> Iterator[SampledSum]:
    """The first sums of each device, and the beginning of that with which its share is full.

    How long the rows of one sum are is not known: they count as equally long.
    """
    left: dict[str, Share] = {}
    for one in sums:
        rows, size = left.get(one.device_id, share)
        fitting = -(-size * one.rows // max(one.bytes, 1))
        part = min(one.rows, rows, max(fitting, 0))
        if part:
            yield SampledSum(one, part)
            left[one.device_id] = Share(rows - part, size - one.bytes * part // one.rows)
