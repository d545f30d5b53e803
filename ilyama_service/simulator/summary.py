"""What a run came to."""

import math
from collections import Counter
from collections.abc import Sequence

import msgspec

from ilyama_service.simulator.messages import Behaviour


class Count(msgspec.Struct):
    """Messages of one behaviour."""

    published: int
    acknowledged: int


class Latency(msgspec.Struct):
    """How long probes took from their publishing until Postgres served them, in seconds."""

    probes: int
    served: int
    p50_s: float | None = None
    p95_s: float | None = None
    max_s: float | None = None


class Summary(msgspec.Struct):
    """A run in figures; `unacknowledged` messages may or may not have arrived."""

    run: str
    record: str
    seconds: float
    published: int
    acknowledged: int
    unacknowledged: int
    refused: int
    bytes: int
    lost_connections: int
    behaviours: dict[str, Count]
    latency: Latency | None = None

    @property
    def rate(self) -> float:
        """Messages per second over the whole run."""
        return self.published / self.seconds if self.seconds else 0.0


class Tally:
    """Counts what a run does."""

    def __init__(self) -> None:
        self.published: Counter[Behaviour] = Counter()
        self.acknowledged: Counter[Behaviour] = Counter()
        self.refused = 0
        self.bytes = 0

    def behaviours(self) -> dict[str, Count]:
        """The counts of every behaviour that occurred."""
        return {
            behaviour.value: Count(self.published[behaviour], self.acknowledged[behaviour])
            for behaviour in Behaviour
            if self.published[behaviour]
        }


def latency_of(seconds: Sequence[float], *, probes: int) -> Latency:
    """The quantiles of the probes that were served."""
    if not seconds:
        return Latency(probes, 0)
    ordered = sorted(seconds)
    return Latency(
        probes,
        len(ordered),
        p50_s=_quantile(ordered, 0.5),
        p95_s=_quantile(ordered, 0.95),
        max_s=ordered[-1],
    )


def _quantile(ordered: Sequence[float], share: float) -> float:
    """The value that this share of the values does not exceed."""
    return ordered[math.ceil(len(ordered) * share) - 1]
