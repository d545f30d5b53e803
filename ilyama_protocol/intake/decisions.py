"""What is decided of one device in a drain so far: its outcomes, its state, and what is asked.

Every kind of message is decided by its own module; they all write down here what they decided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ilyama_protocol.intake.datapoints import DatapointKind, Points
from ilyama_protocol.intake.dedup import Conflict
from ilyama_protocol.intake.history import BatchNeed, History
from ilyama_protocol.intake.outcomes import (
    Arrival,
    LedgerLine,
    Origin,
    Outcome,
    Outcomes,
    RejectedMessage,
)
from ilyama_protocol.intake.state import DeviceState
from ilyama_protocol.rejections import Rejection


class Decisions:
    """The decisions of one device, in arrival order.

    `before` is its state at the start of the drain. `history` is what was looked up for it; when
    nothing was and something is needed, only `needs` is of use afterwards.
    """

    def __init__(self, state: DeviceState, history: History | None, origin: Origin) -> None:
        self.state = state
        self.before = state.copy()
        self.origin = origin
        self.history = history or History()
        self.is_told = history is not None
        self.outcomes = Outcomes()
        self.conflicts: Counter[Conflict] = Counter()
        self.conflicts_since: dict[Conflict, int] = {}
        self.keys: dict[str, DatapointKind] = {}
        self.needs: list[BatchNeed] = []

    def release(self) -> Outcomes:
        """Hand over what was decided since the last release."""
        released, self.outcomes = self.outcomes, Outcomes()
        return released

    def name_keys(self, points: Iterable[Points]) -> None:
        """Note the datapoint keys that came up, each with the kind it came up with first."""
        self.keys.update((p.key, p.kind) for p in points if p.key not in self.keys)

    def list_conflicts(self, arrival: Arrival, conflicts: Iterable[Conflict]) -> None:
        """List other contents under keys that were taken."""
        for conflict in conflicts:
            self.conflicts[conflict] += 1
            self.conflicts_since.setdefault(conflict, arrival.received_at)

    def reject(self, arrival: Arrival, rejection: Rejection) -> None:
        """Refuse a message, with the rule that it breaks."""
        self.outcomes.rejected.append(RejectedMessage(arrival, rejection))
        self.account(
            arrival,
            Outcome.REJECTED,
            source_table=rejection.source_table,
            batch_id=rejection.batch_id,
            code=rejection.code.value,
            rows_received=rejection.row_count,
            rows_rejected=rejection.row_count,
        )

    def account(
        self,
        arrival: Arrival,
        outcome: Outcome,
        *,
        source_table: str | None = None,
        batch_id: str | None = None,
        code: str | None = None,
        **rows: int,
    ) -> None:
        """Write the one line that the ledger has of a message."""
        self.outcomes.ledger.append(
            LedgerLine(
                arrival,
                arrival.address.kind,
                outcome,
                source_table=source_table,
                batch_id=batch_id,
                code=code,
                **rows,
            )
        )
