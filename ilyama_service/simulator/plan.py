"""Which fleet is simulated: everything that its messages follow from."""

import secrets
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final, Self

import msgspec

DEFAULT_DEVICES: Final = 20
DEFAULT_RATE: Final = 5.0
DEFAULT_ROWS: Final = 8
DEFAULT_MISBEHAVE: Final = 0.05
DEFAULT_SLUG: Final = "acme"
PROBER: Final = 0
"""The number of the device that probes."""

_SEEDED_CLOCK: Final = datetime(2026, 1, 1, tzinfo=UTC)
_PROBE_PERIOD_S: Final = 2.0


class FleetPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A fleet and its traffic; the same plan gives the same messages, byte for byte.

    Attributes:
        seed: What everything random follows from.
        clock_start_ms: Where the fleet's own clock begins, in milliseconds of Unix time.
        devices: How many devices there are.
        rate: Messages per second of the whole fleet; the fleet's clock follows it.
        rows_per_batch: Rows of a usual batch.
        misbehave: Share of the messages that are not a usual batch.
        payload_bytes: Shorter payloads are padded to this size; 0 leaves them as they are.
        slug: First level of all topics.
        probe_every: Every so many messages one is a probe; 0 is never.
        telemetry: Share of the messages that are telemetry.
        batch_seqs: Where devices go on with the numbers of their telemetry; others begin at 0.
    """

    seed: str
    clock_start_ms: int
    devices: int = DEFAULT_DEVICES
    rate: float = DEFAULT_RATE
    rows_per_batch: int = DEFAULT_ROWS
    misbehave: float = DEFAULT_MISBEHAVE
    payload_bytes: int = 0
    slug: str = DEFAULT_SLUG
    probe_every: int = 0
    telemetry: float = 0.0
    batch_seqs: dict[int, int] = {}

    @property
    def identity(self) -> str:
        """A name that no other plan has: plans that differ share no journal and no batch id."""
        told = msgspec.structs.asdict(self)
        # Where devices go on differs from run to run, and so does the seed of such runs.
        del told["batch_seqs"]
        return sha256(msgspec.json.encode(told)).hexdigest()

    def device_name(self, number: int) -> str:
        """The name of a device."""
        return "sim-probe" if number == PROBER else f"sim-{number:04}"

    def device_id(self, number: int) -> str:
        """The id under which the platform registers a device by itself."""
        name = self.device_name(number)
        return f"{self.slug}/{name}" if self.slug else name

    def topic(self, number: int, path: str = "sync/rows/batch") -> str:
        """Where a device publishes its batches."""
        return f"{self.slug}/{self.device_name(number)}/{path}"

    def moment_ms(self, message: int) -> int:
        """What the fleet's clock shows when a message is made."""
        return self.clock_start_ms + int(message * 1000 / self.rate)

    def renewed(self) -> Self:
        """The same fleet in a new run: nothing of it collides with what it sent before."""
        return msgspec.structs.replace(self, seed=fresh_seed(), clock_start_ms=_now_ms())


def fresh_seed() -> str:
    """A seed that no run had before."""
    return secrets.token_hex(6)


def clock_start_ms(*, seeded: bool) -> int:
    """Where the clock of a fleet begins: a seeded one must not depend on today."""
    return int(_SEEDED_CLOCK.timestamp() * 1000) if seeded else _now_ms()


def probe_every(rate: float) -> int:
    """After how many messages the next probe comes, so that one comes about every two seconds."""
    return max(2, round(rate * _PROBE_PERIOD_S))


def _now_ms() -> int:
    return int(datetime.now(UTC).timestamp() * 1000)
