"""Which telemetry batches are new, which came before, and which have a number out of turn."""

from collections import Counter
from collections.abc import Iterator

from tests.oracle.canonical import canonical_json
from tests.oracle.records import KeyConflict, listed_first
from tests.oracle.scanner import SourceObject


class TelemetryMemory:
    """Every telemetry batch ever accepted, and the highest number of each lineage."""

    def __init__(self) -> None:
        """Start with no batch seen."""
        self._first: dict[tuple[str, str], tuple[str, str]] = {}
        self._highest: dict[tuple[str, str], int] = {}
        self._others: Counter[tuple[str, str, str]] = Counter()

    def outcome(self, device_id: str, batch: SourceObject) -> str:
        """Remember a valid batch and call it `new`, `duplicate`, `conflict` or by its code."""
        place = (device_id, batch["batch_id"].lower())
        content = canonical_json({name: batch[name] for name in batch if name != "batch_id"})
        if place in self._first:
            if self._first[place][1] == content:
                return "duplicate"
            self._others[(*place, content)] += 1
            return "conflict"
        lineage = (device_id, batch["source_table"])
        number, highest = batch["batch_seq"], self._highest.get(lineage, -1)
        if number <= highest:
            return "duplicate_batch_seq" if number == highest else "stale_batch_seq"
        self._highest[lineage] = number
        self._first[place] = (batch["source_table"], content)
        return "new"

    def begin_era(self, device_id: str, source_table: str) -> None:
        """Let the numbers of a lineage begin anew."""
        self._highest.pop((device_id, source_table), None)

    def conflicts(self) -> Iterator[KeyConflict]:
        """Other contents under known batch ids, with the number of their arrivals."""
        for (device_id, batch_id, other), arrivals in self._others.items():
            source_table, first = self._first[device_id, batch_id]
            yield KeyConflict(
                kind="telemetry batch",
                device_id=device_id,
                source_table=source_table,
                key=canonical_json({"batch_id": batch_id}),
                first=listed_first(first),
                other=other,
                arrivals=arrivals,
            )
