"""Open reviews that are compared again, since more was accepted or approved than when they came."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from ilyama_protocol.governance.policies import NO_PROJECT, Policy
from ilyama_protocol.intake.schema_rulings import ComparedForReview, SchemaRulings
from ilyama_protocol.intake.state import DeviceState, decode_state
from ilyama_resources.postgres import Transaction
from ilyama_resources.postgres.governance.pinned_rules import PinnedRules, pinned_rules
from ilyama_resources.postgres.governance.reviews import Review, evidence_text


class ComparedReview(NamedTuple):
    """An open review beside how its schema compares now."""

    review: Review
    compared: ComparedForReview

    @property
    def is_other(self) -> bool:
        """Whether that is not what the review shows."""
        question, review = self.compared.question, self.review
        told = msgspec.json.decode(evidence_text(question.diff, question.last_accepted))
        return (question.schema_class, told) != (review.schema_class, review.evidence)


def compare_again(
    tx: Transaction, reviews: Sequence[Review], default: Policy
) -> list[ComparedReview]:
    """Let open reviews show how their schemas compare now, by the rules of a drain.

    Who has looked at one that shows something else must look again.
    """
    device_ids = sorted({review.device_id for review in reviews})
    rules, states = pinned_rules(tx, device_ids, default), tx.device_states.of(device_ids)
    known = {name: decode_state(state.encode()) for name, state in states.items()}
    compared = [*_compared(reviews, rules, known)]
    tx.reviews.show_again(
        (found.review.review_id, found.compared.question) for found in compared if found.is_other
    )
    return compared


def _compared(
    reviews: Sequence[Review], rules: PinnedRules, states: dict[str, DeviceState]
) -> Iterator[ComparedReview]:
    for review in reviews:
        state = states.get(review.device_id)
        lineage = None if state is None else state.lineages.get(review.source_table)
        if lineage is not None:
            of_device = rules.devices[review.device_id]
            of_project = rules.projects.get(of_device.project_id or NO_PROJECT)
            compared = SchemaRulings(of_device, of_project).compare_for_review(
                review, lineage, columns=review.columns, received_at=review.first_received_at
            )
            yield ComparedReview(review, compared)
