"""Runs: many drains of one day, one after another, summed up."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

import pyarrow as pa

from ilyama_assets.drains.protocol import DrainReport, Intake

POLL_S = 0.5


@dataclass
class RunReport:
    """The sums over the drains of a run."""

    drains: list[int] = field(default_factory=list)
    messages: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    written: Counter[str] = field(default_factory=Counter)
    bytes_written: Counter[str] = field(default_factory=Counter)
    bytes_received: int = 0
    quarantined: Counter[str] = field(default_factory=Counter)
    out_of_window: int = 0
    versions: dict[str, int] = field(default_factory=dict)
    received: int = 0
    accounted: int = 0
    unbalanced: list[str] = field(default_factory=list)
    repeated_keys: list[str] = field(default_factory=list)
    repeated_samples: list[str] = field(default_factory=list)
    repeated_points: dict[str, list[str]] = field(default_factory=dict)
    rule_breaches: Counter[str] = field(default_factory=Counter)

    def add(self, report: DrainReport) -> None:
        """Count one more drain."""
        self.drains.append(report.drain.drain_id)
        self.bytes_received += report.drain.bytes
        for file in report.seal.files:
            self.written[file.table] += file.rows
            self.bytes_written[file.table] += file.size
        for encoded in report.seal.ledger:
            self._add_ledger(encoded)
        self.quarantined.update(report.seal.findings.quarantined)
        self.out_of_window += report.seal.findings.out_of_window
        self.versions |= report.versions
        self.received += report.integrity.received
        self.accounted += report.integrity.accounted
        self.unbalanced += report.integrity.unbalanced
        self.repeated_keys += report.integrity.repeated_keys
        self.repeated_samples += report.integrity.repeated_samples
        for table, ids in report.integrity.repeated_points.items():
            self.repeated_points[table] = self.repeated_points.get(table, []) + ids
        self.rule_breaches.update(report.integrity.rule_breaches)

    def _add_ledger(self, encoded: bytes) -> None:
        if not encoded:
            return
        for line in pa.ipc.open_stream(encoded).read_all().to_pylist():
            self.messages[line["outcome"]] += line["count_all"]
            for name in ("received", "new", "duplicate", "conflict", "rejected", "staged"):
                self.rows[name] += line[f"rows_{name}_sum"]


class Pace(NamedTuple):
    """How a run takes drains: until it was idle for so long, until it is so old, so far apart."""

    idle_s: float
    max_s: float
    apart_s: float


def drain_day(intake: Intake, day: date, pace: Pace) -> RunReport:
    """Take drains of a day until it has been idle for a while or the run is old enough.

    When nothing of the day waits and something of another does, as after midnight, it ends at once.
    """
    run = RunReport()
    for report in _drains(intake, day, pace):
        run.add(report)
    _tidy_landing(intake, now=datetime.now(UTC))
    return run


def _tidy_landing(intake: Intake, *, now: datetime) -> None:
    intake.landing.put_away(intake.gateway, now=now)
    keep = timedelta(hours=intake.settings.segment_keep_h)
    intake.landing.sweep(put_away_before=now - keep)


def _drains(intake: Intake, day: date, pace: Pace) -> Iterator[DrainReport]:
    started = idle_since = time.monotonic()
    while (opened := time.monotonic()) - started < pace.max_s:
        took = False
        # By turns, so that a backlog that drains keeps nobody else waiting for long.
        for take in (intake.drain, intake.release):
            report = take(day)
            if report is not None:
                yield report
                took = True
        if took:
            idle_since = time.monotonic()
            # Many tiny drains would make many tiny files; a large one takes longer than this.
            time.sleep(max(0.0, opened + pace.apart_s - idle_since))
        elif time.monotonic() - idle_since >= pace.idle_s or intake.waits_elsewhere(day):
            return
        else:
            time.sleep(min(POLL_S, pace.idle_s))
            intake.landing.register_found(intake.gateway)
