"""The state a fault can play with: the devices, and everything they have sent so far."""

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tests.streams.devices import Batch, Device, Message
from tests.streams.identifiers import Identifiers
from tests.streams.telemetry import ODD_SAMPLES, Sampler, TelemetryBatch
from tests.streams.values import TABLES, Table

TELEMETRY_SHARE = 0.2
"""How much of what devices send when nothing goes wrong is telemetry."""

ANNOUNCES = (range(1), range(3, 4), range(0), range(0, 1_000_000, 2))
"""Which batches of a lineage carry `schema_columns`: the first, a later one, none, every other."""


class Stream:
    """A fleet and its history, in the order of publication."""

    def __init__(
        self,
        rng: random.Random,
        *,
        devices: int,
        tables: int,
        rows_per_batch: tuple[int, int],
        pks_per_table: int,
    ) -> None:
        """Create the fleet; nothing has been sent yet."""
        self.rng = rng
        self.ids = Identifiers(rng)
        self.devices = [
            Device(number, tables=tables, pks=pks_per_table, ids=self.ids)
            for number in range(devices)
        ]
        self.sent: list[Message] = []
        self.batches: list[Batch] = []
        self.telemetry: list[TelemetryBatch] = []
        self._samplers = [
            Sampler(device.root, table, self.ids, rng)
            for device in self.devices
            for table in ODD_SAMPLES
        ]
        self._rows_per_batch = rows_per_batch
        self._batches_of: Counter[tuple[str, str]] = Counter()
        self._fresh_tables = 0

    def publish(self, messages: Iterable[Message]) -> None:
        """Remember what was sent."""
        self.sent.extend(messages)

    def device(self) -> Device:
        """Any device."""
        return self.rng.choice(self.devices)

    def row_count(self) -> int:
        """How many rows the next batch has."""
        return self.rng.randint(*self._rows_per_batch)

    def known(self) -> Batch:
        """Any valid batch made before."""
        return self.rng.choice(self.batches)

    def remember(self, batch: Batch) -> Batch:
        """Make a batch known to later faults."""
        self.batches.append(batch)
        return batch

    def again(self, batch: Batch, **changes: Any) -> Batch:
        """A batch like another, under a batch id of its own."""
        return replace(batch, batch_id=self.ids.uuid7(), **changes)

    def next_batch(
        self, device: Device | None = None, table: Table | None = None, *, epoch: str = ""
    ) -> Batch:
        """The next batch of a device and table, without a word about the schema."""
        device = device or self.device()
        table = table or self.rng.choice(device.tables)
        batch = device.batch(table, self.rng, rows=self.row_count(), epoch=epoch)
        return self.remember(batch)

    def plain_batch(self, device: Device, table: Table) -> Batch:
        """An ordinary batch; its lineage announces its schema when it is due."""
        batch = self.next_batch(device, table)
        lineage = (device.root, table.name)
        habit = ANNOUNCES[(device.number + device.tables.index(table)) % len(ANNOUNCES)]
        is_due = self._batches_of[lineage] in habit
        self._batches_of[lineage] += 1
        return announced(batch, table) if is_due else batch

    def sampler(self) -> Sampler:
        """The telemetry of any table of any device."""
        return self.rng.choice(self._samplers)

    def sampler_of(self, batch: TelemetryBatch) -> Sampler:
        """The telemetry that a batch came from, or any when it came from a passing one."""
        for sampler in self._samplers:
            if (sampler.root, sampler.table.name) == (batch.root, batch.table):
                return sampler
        return self.sampler()

    def sampled(self, sampler: Sampler, *, gap: int = 0) -> TelemetryBatch:
        """The next batch of a sampled table."""
        return self.remember_telemetry(sampler.batch(self.rng.randint(1, 6), gap=gap))

    def remember_telemetry(self, batch: TelemetryBatch) -> TelemetryBatch:
        """Make a telemetry batch known to later faults."""
        self.telemetry.append(batch)
        return batch

    def known_telemetry(self) -> TelemetryBatch:
        """Any valid telemetry batch made before."""
        if not self.telemetry:
            return self.sampled(self.sampler())
        return self.rng.choice(self.telemetry)

    def plain_message(self) -> Message:
        """What happens when nothing goes wrong."""
        if self.rng.random() < TELEMETRY_SHARE:
            return self.sampled(self.sampler()).message()
        device = self.device()
        return self.plain_batch(device, self.rng.choice(device.tables)).message()

    def fresh_table(self) -> Table:
        """A table that no device has sent before."""
        self._fresh_tables += 1
        return replace(self.rng.choice(TABLES), name=f"fresh_{self._fresh_tables}")


def announced(batch: Batch, table: Table) -> Batch:
    """The same batch with its `schema_columns`."""
    return replace(batch, extra=batch.extra | {"schema_columns": table.schema_columns()})
