"""What people do with reviews: each act leaves a line in the audit.

PlatformError
├── ReviewNotFound    there is no such review, or none that is open
├── ReviewConflict    it is in another state, or of another version, than the person thinks
└── UnfitActions      the actions cannot be approved; `faults` says why, by column
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Final, NamedTuple

from ilyama_protocol.governance.bindings import (
    ActionFault,
    Actions,
    Approval,
    Binding,
    ColumnAction,
    created_keys,
    keeps_paused,
    kind_of,
    mirrored,
    stored_actions,
)
from ilyama_protocol.governance.policies import Policy
from ilyama_protocol.governance.reviews import OPEN, STEPS, ReviewState, ReviewVerb
from ilyama_resources.errors import PlatformError
from ilyama_resources.postgres import Transaction, audit
from ilyama_resources.postgres.current_instances import Lineage
from ilyama_resources.postgres.governance.accepted_meanwhile import settle
from ilyama_resources.postgres.governance.bindings import BindingScope, ScopeKind
from ilyama_resources.postgres.governance.compared_again import compare_again
from ilyama_resources.postgres.governance.moved_devices import DeviceMove
from ilyama_resources.postgres.governance.open_reviews import OpenReview
from ilyama_resources.postgres.governance.review_queue import MOST_OPEN
from ilyama_resources.postgres.governance.reviews import Decision, Review, ReviewFilter
from ilyama_service.policies import Policies

MOST_AT_ONCE: Final = 1_000
"""More open reviews are closed part after part."""
_UNANNOUNCED_KIND = "state"


class ReviewNotFound(PlatformError):
    """There is no such review."""


class ReviewConflict(PlatformError):
    """The review is not as the person who acts on it thinks."""


class UnfitActions(PlatformError):
    """The actions cannot be approved."""

    def __init__(self, faults: Sequence[ActionFault]) -> None:
        self.faults = list(faults)
        told = "; ".join(f"{fault.column}: {fault.sentence}" for fault in faults)
        super().__init__(f"these actions cannot be approved: {told}")


class Act(NamedTuple):
    """Who acts on which review, and the version of it that they have seen."""

    review_id: int
    action_version: int
    actor: str
    note: str | None = None


class Closing(NamedTuple):
    """Who rejects or abandons all open reviews that a filter names."""

    verb: ReviewVerb
    wanted: ReviewFilter
    actor: str
    note: str | None = None


class ClosedTogether(NamedTuple):
    """How many reviews were closed, and how many that the filter names are open now."""

    closed: int
    left: int


class Reviewing:
    """Acts on reviews and policies, within a transaction that is the caller's to commit."""

    def __init__(self, default: Policy, *, most_open: int = MOST_OPEN) -> None:
        """Act where no project chose by `default`, with so many open reviews of a lineage."""
        self._default = default
        self._policies = Policies(default)
        self._most_open = most_open

    def act(
        self, tx: Transaction, verb: ReviewVerb, act: Act, actions: Actions | None = None
    ) -> Review:
        """Do what a verb says; an approval and a later decision take actions."""
        match verb:
            case ReviewVerb.START:
                return self._start(tx, act)
            case ReviewVerb.APPROVE:
                return self._approve(tx, act, actions)
            case ReviewVerb.REOPEN:
                return self._reopen(tx, act)
            case ReviewVerb.DECIDE:
                return self._decide(tx, act, actions or {})
            case _:
                return self._close(tx, act, verb)

    def _start(self, tx: Transaction, act: Act) -> Review:
        review = _acted_on(tx, act, ReviewVerb.START)
        tx.reviews.start(review, note=act.note)
        return _finished(tx, act, ReviewVerb.START, review, {"note": act.note})

    def _approve(self, tx: Transaction, act: Act, actions: Actions | None) -> Review:
        """Bind a schema for its project, or its device, and let the lineages go on.

        Columns that no action is named for are mirrored only when none is named at all.
        """
        review = _acted_on(tx, act, ReviewVerb.APPROVE)
        chosen = mirrored(review.column_names) if actions is None else actions
        self._refuse_unfit(tx, review, chosen)
        told = self._bind(tx, act, review, chosen)
        return _finished(tx, act, ReviewVerb.APPROVE, review, told)

    def _bind(
        self, tx: Transaction, act: Act, review: Review, actions: Actions
    ) -> dict[str, object]:
        sharing = [other for other in tx.reviews.alike(review) if other.state in OPEN]
        decision = Decision(ReviewState.APPROVED, act.actor, act.note, actions)
        tx.registries.ensure_keys(_kinds_to_create(review, actions))
        tx.bindings.bind(
            BindingScope.of(review.device_id, review.project_id),
            review.source_table,
            review.schema_hash,
            actions=_bound_actions(review, actions),
            holds_from=min(other.first_received_at for other in sharing),
            holding=_holds(review, actions),
            review_id=review.review_id,
        )
        tx.reviews.decide([o.review_id for o in sharing], decision, by=review.review_id)
        lineages = [(other.device_id, review.source_table) for other in sharing]
        tx.review_queue.fill(lineages, most=self._most_open)
        settled = self._compare_again(tx, tx.reviews.open_beside(review), by=review, act=act)
        resumed = [] if _holds(review, actions) else tx.reviews.resume(review)
        resumed += tx.reviews.resume_lapsed({(r.device_id, r.source_table) for r in settled})
        return {
            "actions": {name: _told_action(action) for name, action in actions.items()},
            "shared_with": [o.review_id for o in sharing if o.review_id != review.review_id],
            "settled": [other.review_id for other in settled],
            "resumed": [device_id for device_id, _ in resumed],
            "note": act.note,
        }

    def _compare_again(
        self, tx: Transaction, reviews: Sequence[Review], *, by: Review, act: Act
    ) -> list[Review]:
        """Show how other open schemas compare after an approval, and settle what it has bound."""
        bound = [c for c in compare_again(tx, reviews, self._default) if c.compared.is_bound]
        for review, compared in bound:
            since, actions = review.first_received_at, compared.when_it_came.actions
            tx.bindings.bind(
                BindingScope(ScopeKind.DEVICE, review.device_id),
                review.source_table,
                review.schema_hash,
                actions=actions,
                holds_from=since,
                holding=False,
                review_id=review.review_id,
            )
            note = f"review {by.review_id} has bound all of its columns"
            binding = Binding.approved(since, actions)
            settle(tx, _seen_again(tx, review), binding, actor=act.actor, note=note)
        return [found.review for found in bound]

    def refuse_approval(self, tx: Transaction, review: Review, actions: Actions | None) -> None:
        """Raise what an approval with these actions would."""
        _refuse_in_state(review, ReviewVerb.APPROVE)
        chosen = mirrored(review.column_names) if actions is None else actions
        self._refuse_unfit(tx, review, chosen)

    def _decide(self, tx: Transaction, act: Act, actions: Actions) -> Review:
        """Decide columns that an approval has left for later; the others stay as they are."""
        review = _acted_on(tx, act, ReviewVerb.DECIDE)
        approved = review.actions or {}
        approval = self._approval(tx, review, approved, *actions.values())
        _refuse(approval.faults_of_later(actions))
        origin = review.shared_from or review.review_id
        if not tx.bindings.decide(origin, _bound_actions(review, approved, actions)):
            told = "keeps its lineage paused, or another took its place"
            raise ReviewConflict(f"the approval of review {review.review_id} {told}: reopen it")
        tx.registries.ensure_keys(_kinds_to_create(review, actions))
        tx.reviews.change_actions(origin, approved | actions, note=act.note)
        told_actions = {name: _told_action(action) for name, action in actions.items()}
        told_now: dict[str, object] = {"actions": told_actions, "note": act.note}
        return _finished(tx, act, ReviewVerb.DECIDE, review, told_now)

    def _refuse_unfit(self, tx: Transaction, review: Review, actions: Actions) -> None:
        _refuse_unseen(tx, review)
        _refuse(self._approval(tx, review, actions).faults())

    def _approval(
        self, tx: Transaction, review: Review, actions: Actions, *others: ColumnAction
    ) -> Approval:
        named = (action.key for action in (*actions.values(), *others))
        return Approval(
            review.source_table,
            review.column_names,
            actions,
            self._policies.of_table(tx, review.project_id, review.source_table),
            tx.registries.kinds_of([key for key in named if key is not None]),
            review.columns or (),
        )

    def _reopen(self, tx: Transaction, act: Act) -> Review:
        """Ask again about a schema whose decision keeps its lineage paused."""
        review = _acted_on(tx, act, ReviewVerb.REOPEN)
        if not _may_be_asked_again(review):
            raise ReviewConflict(f"review {review.review_id} is {review.state} and binds")
        if tx.reviews.is_open(review.device_id, review.source_table, review.schema_hash):
            raise ReviewConflict(f"a review of {review.schema_hash} is open already")
        review_id = tx.reviews.reopen(review.review_id, actor=act.actor, note=act.note)
        again = act._replace(review_id=review_id)
        compare_again(tx, [_seen_again(tx, review._replace(review_id=review_id))], self._default)
        told: dict[str, object] = {"reopens": review.review_id, "note": act.note}
        return _finished(tx, again, ReviewVerb.REOPEN, review, told)

    def _close(self, tx: Transaction, act: Act, verb: ReviewVerb) -> Review:
        """Reject or abandon; a rejected schema keeps its lineage paused, an abandoned one maybe."""
        review = _acted_on(tx, act, verb)
        decision = Decision(STEPS[verb].after, act.actor, act.note)
        resumed = [device_id for device_id, _ in self._end(tx, [review], decision)]
        return _finished(tx, act, verb, review, {"note": act.note, "resumed": resumed})

    def close_all(self, tx: Transaction, closing: Closing) -> ClosedTogether:
        """Reject or abandon the open reviews of a filter, the oldest first, so many at once.

        What waited for room behind them becomes open, and counts as left.
        """
        tx.reviews.alone()
        chosen = tx.open_reviews.oldest(closing.wanted, limit=MOST_AT_ONCE)
        if not chosen:
            raise ReviewNotFound("there is no such review that is open")
        decision = Decision(STEPS[closing.verb].after, closing.actor, closing.note)
        resumed = {*self._end(tx, chosen, decision)}
        tx.audit.record_all(_told_end(closing, review, resumed) for review in chosen)
        return ClosedTogether(len(chosen), tx.open_reviews.count(closing.wanted))

    def _end(
        self, tx: Transaction, reviews: Sequence[Review | OpenReview], decision: Decision
    ) -> list[Lineage]:
        """End reviews without a binding; tell which lineages go on."""
        tx.reviews.decide([review.review_id for review in reviews], decision)
        lineages = {(review.device_id, review.source_table) for review in reviews}
        if tx.review_queue.fill(lineages, most=self._most_open):
            compare_again(tx, tx.reviews.open_of_lineages(lineages), self._default)
        return tx.reviews.resume_closed(lineages)

    def follow(self, tx: Transaction, move: DeviceMove, *, actor: str) -> None:
        """Let what is open of a device that moves be decided in its new project."""
        tx.reviews.alone()
        tx.moved_devices.keep_approvals(move)
        answered = tx.moved_devices.share_approvals(move)
        open_still = tx.moved_devices.take_reviews_along(move)
        # Who approves the rest in the old project would lift the pause, and release no rows.
        for held in tx.moved_devices.held_approvals(move):
            tx.reviews.reopen(held, actor=actor, note="the device has moved")
        lineages = {*answered, *open_still}
        tx.review_queue.fill(lineages, most=self._most_open)
        compare_again(tx, tx.reviews.open_of_lineages(lineages), self._default)
        tx.reviews.resume_lapsed({*answered})


def review_as_seen(tx: Transaction, review_id: int, action_version: int | None) -> Review:
    """The review; ReviewConflict when it has another version than the person has seen."""
    review = tx.reviews.find(review_id)
    if review is None:
        raise ReviewNotFound(f"there is no review {review_id}")
    if action_version not in (None, review.action_version):
        raise ReviewConflict(
            f"review {review_id} has version {review.action_version}, "
            f"not {action_version}: look at it again"
        )
    return review


def _acted_on(tx: Transaction, act: Act, verb: ReviewVerb) -> Review:
    """The review, which nobody else can change until the transaction ends."""
    tx.reviews.alone()
    review = review_as_seen(tx, act.review_id, act.action_version)
    _refuse_in_state(review, verb)
    return review


def _seen_again(tx: Transaction, review: Review) -> Review:
    return tx.reviews.find(review.review_id) or review


def _refuse_in_state(review: Review, verb: ReviewVerb) -> None:
    if review.state not in STEPS[verb].before:
        raise ReviewConflict(f"review {review.review_id} is {review.state}: cannot {verb} it")


def _refuse_unseen(tx: Transaction, review: Review) -> None:
    """Leave a schema to the open review that shows its columns, when this one does not."""
    if review.columns is None and (other := tx.reviews.showing_columns(review)) is not None:
        raise ReviewConflict(f"review {other} shows the columns of this schema: approve that one")


def _refuse(faults: Sequence[ActionFault]) -> None:
    if faults:
        raise UnfitActions(faults)


def _may_be_asked_again(review: Review) -> bool:
    undecided = (ReviewState.REJECTED, ReviewState.ABANDONED)
    return review.state in undecided or _holds(review, review.actions or {})


def _holds(review: Review, actions: Actions) -> bool:
    return keeps_paused(actions, review.columns or ())


def _kinds_to_create(review: Review, actions: Actions) -> dict[str, str]:
    kinds = {column.name: kind_of(column) for column in review.columns or ()}
    created = created_keys(review.source_table, actions)
    return {key: kinds.get(column, _UNANNOUNCED_KIND) for column, key in created.items()}


def _finished(
    tx: Transaction, act: Act, verb: str, review: Review, told: dict[str, object]
) -> Review:
    """Write the line of the audit, and show the review as it is now."""
    after = tx.reviews.find(act.review_id)
    if after is None:
        raise ReviewNotFound(f"there is no review {act.review_id}")
    tx.audit.record(
        actor=act.actor,
        verb=verb,
        resource=f"review/{act.review_id}",
        old={"state": review.state, "action_version": review.action_version},
        new={"state": after.state, "action_version": after.action_version} | told,
    )
    return after


def _told_end(closing: Closing, review: OpenReview, resumed: Container[Lineage]) -> audit.Act:
    """The line of the audit of one review among many that were closed."""
    goes_on = (review.device_id, review.source_table) in resumed
    after = {
        "state": STEPS[closing.verb].after,
        "action_version": review.action_version + 1,
        "note": closing.note,
        "resumed": [review.device_id] if goes_on else [],
    }
    before = {"state": review.state, "action_version": review.action_version}
    place = f"review/{review.review_id}"
    return audit.Act(closing.actor, closing.verb, place, before, after)


def _bound_actions(
    review: Review, approved: Actions, decided: Actions | None = None
) -> Actions | None:
    """The actions as they bind: by name, unless the approval named all columns that can be."""
    actions = approved | (decided or {})
    names_all = review.columns is not None and {c.name for c in review.columns} <= approved.keys()
    return stored_actions(actions) if names_all else actions


def _told_action(action: ColumnAction) -> str:
    return action.verb if action.key is None else f"{action.verb}:{action.key}"
