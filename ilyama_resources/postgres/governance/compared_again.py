"""Open reviews that are compared again, since more was accepted or approved than when they came."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

import msgspec

from ilyama_protocol.governance.policies import NO_PROJECT, Policy
from ilyama_protocol.intake.schema_rulings import ComparedForReview, SchemaRulings
from ilyama_protocol.intake.state import decode_state
from ilyama_resources.postgres import Transaction
from ilyama_resources.postgres.device_states import STATES_AT_ONCE
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
    of_devices = sorted(reviews, key=attrgetter("device_id"))
    rules = pinned_rules(tx, sorted({review.device_id for review in reviews}), default)
    compared: list[ComparedReview] = []
    # The states of a fleet are more than fit into memory.
    for begin in range(0, len(of_devices), STATES_AT_ONCE):
        some = of_devices[begin : begin + STATES_AT_ONCE]
        compared += _compared(some, rules, tx.device_states.of({r.device_id for r in some}))
    tx.reviews.show_again(
        (found.review.review_id, found.compared.question) for found in compared if found.is_other
    )
    return compared


def _compared(
    reviews: Sequence[Review], rules: PinnedRules, states: Mapping[str, str]
) -> Iterator[ComparedReview]:
    for review in reviews:
        state = decode_state(states.get(review.device_id, "{}").encode())
        lineage = state.lineages.get(review.source_table)
        if lineage is not None:
            of_device = rules.devices[review.device_id]
            of_project = rules.projects.get(of_device.project_id or NO_PROJECT)
            compared = SchemaRulings(of_device, of_project).compare_for_review(
                review, lineage, columns=review.columns, received_at=review.first_received_at
            )
            yield ComparedReview(review, compared)
