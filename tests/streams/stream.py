"""The state a fault can play with: the devices, and everything they have sent so far."""

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tests.streams.devices import Batch, Device, Message
from tests.streams.identifiers import Identifiers
from tests.streams.values import TABLES, Table

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

    def plain_message(self) -> Message:
        """What happens when nothing goes wrong."""
        device = self.device()
        return self.plain_batch(device, self.rng.choice(device.tables)).message()

    def fresh_table(self) -> Table:
        """A table that no device has sent before."""
        self._fresh_tables += 1
        return replace(self.rng.choice(TABLES), name=f"fresh_{self._fresh_tables}")


def announced(batch: Batch, table: Table) -> Batch:
    """The same batch with its `schema_columns`."""
    return replace(batch, extra=batch.extra | {"schema_columns": table.schema_columns()})
