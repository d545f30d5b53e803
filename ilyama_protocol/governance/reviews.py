"""Reviews: the life of a question that a new schema raises, and what the engine says of it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from ilyama_protocol.fingerprint import SchemaColumn
from ilyama_protocol.governance.classification import SchemaClass, SchemaDiff


class ReviewState(StrEnum):
    """How far a review has come."""

    QUEUED = "queued"
    IN_REVIEW = "in_review"
    APPROVED = "approved"
    REJECTED = "rejected"
    ABANDONED = "abandoned"


OPEN = frozenset({ReviewState.QUEUED, ReviewState.IN_REVIEW})


class ReviewVerb(StrEnum):
    """What a person does with a review."""

    START = "start"
    APPROVE = "approve"
    REJECT = "reject"
    ABANDON = "abandon"
    REOPEN = "reopen"
    DECIDE = "decide"


class Step(NamedTuple):
    """What a verb makes of a review, and of which."""

    before: frozenset[ReviewState]
    after: ReviewState


STEPS: Mapping[ReviewVerb, Step] = {
    ReviewVerb.START: Step(frozenset({ReviewState.QUEUED}), ReviewState.IN_REVIEW),
    ReviewVerb.APPROVE: Step(OPEN, ReviewState.APPROVED),
    ReviewVerb.REJECT: Step(OPEN, ReviewState.REJECTED),
    ReviewVerb.ABANDON: Step(OPEN, ReviewState.ABANDONED),
    ReviewVerb.REOPEN: Step(frozenset(ReviewState) - OPEN, ReviewState.QUEUED),
    ReviewVerb.DECIDE: Step(frozenset({ReviewState.APPROVED}), ReviewState.APPROVED),
}
"""To reopen makes another review; what was decided stays on record. To decide speaks of columns
that an approval has left for later."""


class ReviewAsked(msgspec.Struct, frozen=True):
    """A schema that somebody has to look at; `columns` is None when the device never sent them.

    `seen` are the columns that rows had: those of its first batch, and of a schema that was not
    announced, those of the batches that followed, up to the one that announces it.
    """

    device_id: str
    source_table: str
    schema_hash: str
    schema_class: SchemaClass
    received_at: int
    firmware_version: str
    columns: tuple[SchemaColumn, ...] | None
    seen: tuple[str, ...]
    diff: SchemaDiff
    last_accepted: str | None = None

    def joined(self, later: ReviewAsked) -> ReviewAsked:
        """The same when it is asked again: who had not told the columns may show or tell more."""
        if self.columns is not None:
            return self
        told = self if later.columns is None else later
        return replace(
            told,
            received_at=self.received_at,
            firmware_version=self.firmware_version,
            seen=tuple(sorted({*self.seen, *later.seen})),
        )
