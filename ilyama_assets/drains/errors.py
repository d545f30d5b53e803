"""Why a drain stops.

DrainStopped
├── DrainInterrupted   something outside failed; the next run goes on by itself
│   ├── WorkerStale    a Spark worker runs another build
│   └── ReleaseFailed  rows to be released are not there; the release is given up
├── DrainHeld          an integrity check failed; an operator has to look
└── WarehouseAhead     the tables know drains that Postgres does not
"""

from collections.abc import Sequence

from ilyama_resources.errors import PlatformError
from ilyama_resources.postgres.staged_backlog import StagedSum


class DrainStopped(PlatformError):
    """A drain could not be finished; its text is a sentence for a person."""


class DrainInterrupted(DrainStopped):
    """Something outside the messages failed: the drain goes on later from where it stands."""


class WorkerStale(DrainInterrupted):
    """A Spark worker runs another build of the platform."""


class ReleaseFailed(DrainInterrupted):
    """What was to be released is not there: the release has changed nothing and is given up."""

    def __init__(self, sentence: str, missing: Sequence[StagedSum]) -> None:
        super().__init__(sentence)
        self.missing = list(missing)


class DrainHeld(DrainStopped):
    """An integrity check failed: nothing of the drain is visible, intake waits for an operator."""


class WarehouseAhead(DrainStopped):
    """The tables have taken drains that Postgres has never opened."""
