"""Reviews that are settled because their schemas were accepted while they were open."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import msgspec

from ilyama_protocol.governance.bindings import Actions, Binding
from ilyama_protocol.governance.reviews import ReviewState
from ilyama_resources.postgres import Transaction, audit
from ilyama_resources.postgres.current_instances import Lineage
from ilyama_resources.postgres.governance.bindings import PolicyAcceptance
from ilyama_resources.postgres.governance.reviews import Decision, Review

PLATFORM = "platform"
"""Who acts where no person does."""

_WHY = "its columns are all bound, or a policy accepts it"


class BoundReview(NamedTuple):
    """An open review beside what its schema is bound as; None is everything as usual."""

    review: Review
    actions: Actions | None

    @property
    def lineage(self) -> Lineage:
        """The lineage that waits."""
        return self.review.device_id, self.review.source_table

    @property
    def actions_text(self) -> bytes:
        """What becomes of each of its columns, as it can be compared."""
        binding = Binding.approved(0, self.actions)
        named = {name: binding.action(name) for name in self.review.column_names}
        return msgspec.json.encode(named, order="sorted")


def settle_accepted(tx: Transaction, accepted: Sequence[PolicyAcceptance]) -> list[Lineage]:
    """Answer what is open about schemas that a drain has accepted; tell of which lineages."""
    actions = {found.awaited_by: found.binding.actions for found in accepted}
    lineages = {found.awaited_by[:2] for found in accepted}
    settled = [
        BoundReview(review, actions[place])
        for review in tx.reviews.open_of_lineages(lineages)
        if (place := (review.device_id, *review.place)) in actions
    ]
    settle(tx, settled, actor=PLATFORM, note=_WHY)
    return [found.lineage for found in settled]


def settle(tx: Transaction, bound: Sequence[BoundReview], *, actor: str, note: str) -> None:
    """Approve open reviews as their schemas are bound, with a line in the audit for each."""
    in_groups = sorted(bound, key=attrgetter("actions_text"))
    for text, alike in groupby(in_groups, attrgetter("actions_text")):
        actions = msgspec.json.decode(text, type=Actions)
        decision = Decision(ReviewState.APPROVED, actor, note, actions)
        tx.reviews.decide([found.review.review_id for found in alike], decision)
    tx.audit.record_all(_told(found.review, actor, note) for found in bound)


def _told(review: Review, actor: str, note: str) -> audit.Act:
    version = review.action_version
    old = {"state": review.state, "action_version": version}
    new = {"state": ReviewState.APPROVED, "action_version": version + 1, "note": note}
    return audit.Act(actor, "settle", f"review/{review.review_id}", old, new)
