"""Reviews that are settled because their schemas were accepted while they were open."""

from __future__ import annotations

from collections.abc import Sequence

from ilyama_protocol.governance.bindings import Binding
from ilyama_protocol.governance.reviews import ReviewState
from ilyama_resources.postgres import Transaction, audit
from ilyama_resources.postgres.current_instances import Lineage
from ilyama_resources.postgres.governance.bindings import PolicyAcceptance
from ilyama_resources.postgres.governance.reviews import Decision, Review

PLATFORM = "platform"
"""Who acts where no person does."""

_WHY = "its columns are all bound, or a policy accepts it"


def settle_accepted(tx: Transaction, accepted: Sequence[PolicyAcceptance]) -> list[Lineage]:
    """Answer what is open about schemas that a drain has accepted; tell of which lineages."""
    bindings = {found.awaited_by: found.binding for found in accepted}
    lineages = {found.awaited_by[:2] for found in accepted}
    settled = [
        (review, bindings[place])
        for review in tx.reviews.open_of_lineages(lineages)
        if (place := (review.device_id, *review.place)) in bindings
    ]
    for review, binding in settled:
        settle(tx, review, binding, actor=PLATFORM, note=_WHY)
    return [(review.device_id, review.source_table) for review, _ in settled]


def settle(tx: Transaction, review: Review, binding: Binding, *, actor: str, note: str) -> None:
    """Approve an open review as its schema is bound, and leave a line in the audit."""
    actions = {name: binding.action(name) for name in review.column_names}
    decision = Decision(ReviewState.APPROVED, actor, note, actions)
    tx.reviews.decide([review.review_id], decision)
    tx.audit.record_all([_told(review, actor, note)])


def _told(review: Review, actor: str, note: str) -> audit.Act:
    version = review.action_version
    old = {"state": review.state, "action_version": version}
    new = {"state": ReviewState.APPROVED, "action_version": version + 1, "note": note}
    return audit.Act(actor, "settle", f"review/{review.review_id}", old, new)
