"""Which rows are set aside, why, and when they come back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from tests.oracle.datapoints import KIND_OF_AFFINITY, kind_of
from tests.oracle.records import LedgerLine, RowChange, StagedRow, TelemetrySample

FAILURES_THAT_OPEN = 5
REASONS = ("schema_review", "lineage_paused", "materialization_failed")
HOLDING = {"schema_review", "circuit_open", "operator"}
"""The pauses that hold what is staged; a full backlog must be able to drain."""

Lineage = tuple[str, str]
Columns = Mapping[str, Mapping[str, Any]]


class Aside(NamedTuple):
    """A decided row that waits, with all that is needed to show it later."""

    reason: str
    line: LedgerLine
    change: RowChange
    pk: Mapping[str, Any]
    row: Mapping[str, Any] | None
    columns: Columns | None


class AsideSample(NamedTuple):
    """A row of telemetry that waits."""

    reason: str
    line: LedgerLine
    change: TelemetrySample
    fields: Mapping[str, Any]
    affinities: Mapping[str, str] | None


class Staging:
    """The pauses of lineages, their failures, and everything that was set aside."""

    def __init__(self) -> None:
        """Start with every lineage active."""
        self.rows: list[StagedRow] = []
        self._pauses: dict[Lineage, set[str]] = {}
        self._failures: dict[Lineage, int] = {}
        self._waiting: list[Aside | AsideSample] = []

    def pause(self, lineage: Lineage, reason: str = "operator") -> None:
        """Pause a lineage for a reason."""
        self._pauses.setdefault(lineage, set()).add(reason)

    def resume(self, lineage: Lineage, reason: str = "operator") -> None:
        """Take a reason away."""
        self._pauses.get(lineage, set()).discard(reason)

    def is_paused(self, lineage: Lineage) -> bool:
        """Whether there is any reason."""
        return bool(self._pauses.get(lineage))

    def set_aside(self, aside: Aside) -> None:
        """Keep a row for later."""
        self._waiting.append(aside)
        line = aside.line
        self.rows.append(StagedRow(*aside.change, aside.reason, line.topic, str(line.kind)))

    def set_sample_aside(self, aside: AsideSample) -> None:
        """Keep a row of telemetry for later."""
        self._waiting.append(aside)
        sample, line = aside.change, aside.line
        nothing: dict[str, Any] = dict.fromkeys(StagedRow._fields)
        told = nothing | sample._asdict() | {"staging_reason": aside.reason}
        self.rows.append(StagedRow(**told | {"topic": line.topic, "kind": line.kind}))

    def waits(self, lineage: Lineage) -> bool:
        """Whether something of a lineage is paused or waits, so that telemetry must wait too."""
        return self.is_paused(lineage) or any(
            (aside.change.device_id, aside.change.source_table) == lineage
            for aside in self._waiting
            if aside.reason == "lineage_paused"
        )

    def count(self, aside: Aside, *, failed: bool) -> None:
        """Count failures in a row of what arrives, and open the circuit at the fifth."""
        lineage = (aside.change.device_id, aside.change.source_table)
        self._failures[lineage] = self._failures.get(lineage, 0) + 1 if failed else 0
        if self._failures[lineage] == FAILURES_THAT_OPEN:
            self._failures[lineage] = 0
            self.pause(lineage, "circuit_open")

    def freed(
        self, rank: Callable[[str, str], int], *, retried: frozenset[Lineage] = frozenset()
    ) -> Iterator[Aside | AsideSample]:
        """Hand out what nothing holds: telemetry as it came, then batches of rows as made.

        Rank tells the place of a device's epoch.
        """
        free = [aside for aside in self._waiting if self._is_free(aside, retried)]
        self._waiting = [aside for aside in self._waiting if aside not in free]
        yield from sorted((a for a in free if isinstance(a, AsideSample)), key=_arrival)
        yield from _as_made([a for a in free if isinstance(a, Aside)], rank)

    def _is_free(self, aside: Aside | AsideSample, retried: frozenset[Lineage]) -> bool:
        lineage = (aside.change.device_id, aside.change.source_table)
        if aside.reason == "materialization_failed" and lineage not in retried:
            return False
        return not self._pauses.get(lineage, set()) & HOLDING


def _arrival(aside: Aside | AsideSample) -> tuple[Any, ...]:
    return (*aside.line[:3], aside.change.row_index)


def _as_made(rows: Iterable[Aside], rank: Callable[[str, str], int]) -> list[Aside]:
    lowest: dict[LedgerLine, int] = {}
    for aside in rows:
        number = aside.change.commit_seq
        lowest[aside.line] = min(number, lowest.get(aside.line, number))

    def place(aside: Aside) -> tuple[Any, ...]:
        epoch = rank(aside.change.device_id, aside.change.journal_epoch)
        return (epoch, lowest[aside.line], *_arrival(aside))

    return sorted(rows, key=place)


def misfits(pk: Mapping[str, Any], row: Mapping[str, Any] | None, columns: Columns | None) -> bool:
    """Whether a key or NOT NULL column has a value of the wrong kind."""
    for name, column in (columns or {}).items():
        sent = [row[name]] if row is not None and name in row else []
        if column["pk_ordinal"]:
            sent += [pk[name]] if name in pk else []
        elif not column["not_null"]:
            continue
        wanted = KIND_OF_AFFINITY[column["decl_type_affinity"]]
        if any(value is not None and kind_of(value) != wanted for value in sent):
            return True
    return False
