"""What must come of a message, and how the policy of a deployment changes that."""

from __future__ import annotations

from typing import Final

import msgspec

from ilyama_protocol.governance.policies import FirstSchema, Policy
from ilyama_protocol.intake.lineage_rulings import StagingReason
from ilyama_protocol.intake.outcomes import Outcome
from ilyama_protocol.rejections import RejectionCode

_OF_A_BATCH: Final = (Outcome.ACCEPTED, Outcome.STAGED)


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """What must come of a message.

    Attributes:
        outcome: The end it must come to; None where nobody may hear it.
        code: The code it must be rejected with.
        reason: Why it must be staged.
        fresh: How many of its rows are kept or wait.
        known: How many were known before.
        conflicts: How many of those have other content.
        late: How many rows are older than a change of their row that came before.
        if_columns_may_join: Whether it is staged only where new columns wait for a review.
    """

    outcome: Outcome | None
    code: RejectionCode | None = None
    reason: StagingReason | None = None
    fresh: int = 0
    known: int = 0
    conflicts: int = 0
    late: int = 0
    if_columns_may_join: bool = False

    def under(self, policy: Policy) -> Expected:
        """The same where a policy holds; as it is written, it is of one that accepts first schemas.

        Where the first schema of a table waits for a review, everything of the table waits for it.
        """
        if self.outcome not in _OF_A_BATCH:
            return self
        if policy.first_schema is FirstSchema.REVIEW:
            waits = StagingReason.SCHEMA_REVIEW
            return msgspec.structs.replace(self, outcome=Outcome.STAGED, reason=waits)
        if self.if_columns_may_join and policy.allow_additive_continue:
            return msgspec.structs.replace(self, outcome=Outcome.ACCEPTED, reason=None)
        return self

    @property
    def told(self) -> str:
        """The end in a few words."""
        if self.outcome is None:
            return "heard by nobody"
        if self.code is not None:
            return self.code.value
        reason = f" for {self.reason}" if self.reason else ""
        particulars = {"in conflict": self.conflicts, "with late rows": self.late}
        return " ".join([f"{self.outcome}{reason}", *(w for w, n in particulars.items() if n)])


def accepted(fresh: int, *, known: int = 0, conflicts: int = 0, late: int = 0) -> Expected:
    """So many rows are new."""
    return Expected(
        outcome=Outcome.ACCEPTED, fresh=fresh, known=known, conflicts=conflicts, late=late
    )


def staged(fresh: int, reason: StagingReason = StagingReason.SCHEMA_REVIEW) -> Expected:
    """So many rows wait, whatever the policy lets happen without a person."""
    return Expected(outcome=Outcome.STAGED, reason=reason, fresh=fresh)


def added(fresh: int, reason: StagingReason = StagingReason.SCHEMA_REVIEW) -> Expected:
    """So many rows wait for columns that joined, unless the policy lets columns join."""
    waiting = staged(fresh, reason)
    return msgspec.structs.replace(waiting, if_columns_may_join=True)


def duplicate(known: int, *, conflicts: int = 0) -> Expected:
    """Nothing in it is new."""
    return Expected(outcome=Outcome.DUPLICATE, known=known, conflicts=conflicts)


def rejected(code: RejectionCode) -> Expected:
    """It breaks a rule."""
    return Expected(outcome=Outcome.REJECTED, code=code)


def unheard() -> Expected:
    """It is published where the platform does not listen: no line of the ledger is of it."""
    return Expected(outcome=None)


def handled() -> Expected:
    """It is no batch, and is seen to."""
    return Expected(outcome=Outcome.HANDLED)
