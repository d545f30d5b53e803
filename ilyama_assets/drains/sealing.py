"""Seal: when a drain's integrity holds, what it will commit and close with is fixed for good."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import zstandard

from ilyama_assets.drains.orders import (
    DeviceDone,
    Findings,
    LineagePaused,
    Products,
    RejectedNumbers,
)
from ilyama_assets.drains.planning import Plan
from ilyama_protocol.governance.reviews import ReviewAsked
from ilyama_protocol.intake.sequences import SequenceChange
from ilyama_resources.delta.data_files import DataFile
from ilyama_resources.postgres.devices import RegisteredDevice
from ilyama_resources.postgres.governance.bindings import PolicyAcceptance
from ilyama_resources.postgres.governance.shelved_schemas import ShelvedSchema
from ilyama_resources.postgres.sequence_resets import SequenceReset
from ilyama_resources.postgres.staged_backlog import StagedSum


class Seal(msgspec.Struct):
    """Everything that commit and close need, so that neither decides anything."""

    files: list[DataFile]
    states: list[DeviceDone]
    current: list[bytes]
    crowded: list[tuple[str, str]]
    ledger: list[bytes]
    keys: dict[str, str]
    newcomers: list[RegisteredDevice]
    findings: Findings
    staged: list[StagedSum] = []
    """What the drain sets aside."""
    released: list[StagedSum] = []
    """What it materializes that others have set aside."""
    reviews: list[ReviewAsked] = []
    shelved: list[ShelvedSchema] = []
    accepted: list[PolicyAcceptance] = []
    resumed: list[tuple[str, str]] = []
    pauses: list[LineagePaused] = []
    """Lineages that it pauses."""
    resets: list[SequenceReset] = []
    """What it applies of what was asked for of the numbers of telemetry batches."""
    rejections: list[bytes] = []
    replayed: list[bytes] = []
    sequences: list[tuple[str, SequenceChange]] = []
    rejected: list[RejectedNumbers] = []


class IntegrityReport(msgspec.Struct):
    """What the integrity checks say of a whole drain."""

    received: int
    accounted: int
    unbalanced: list[str]
    repeated_keys: list[str]
    rule_breaches: dict[str, int]
    repeated_samples: list[str] = []
    repeated_points: dict[str, list[str]] = {}

    @property
    def balanced(self) -> bool:
        """Whether every received message and row is accounted for."""
        return self.received == self.accounted and not self.unbalanced

    @property
    def breaches(self) -> list[str]:
        """What does not hold, in sentences."""
        found = []
        if self.received != self.accounted:
            found.append(f"{self.received} messages were received, {self.accounted} accounted for")
        if self.unbalanced:
            found.append(f"rows do not add up at {', '.join(self.unbalanced)}")
        if self.repeated_keys:
            found.append(f"row keys are not unique: {', '.join(self.repeated_keys)}")
        if self.repeated_samples:
            found.append(f"samples are not unique: {', '.join(self.repeated_samples)}")
        found += [
            f"ids in {table} are not unique: {', '.join(ids)}"
            for table, ids in self.repeated_points.items()
        ]
        found += [f"{count} rows break {rule}" for rule, count in self.rule_breaches.items()]
        return found


def make_seal(products: Sequence[Products], plan: Plan) -> Seal:
    """Join the products of all tasks."""
    return Seal(
        files=[file for p in products for file in p.files],
        states=[done for p in products for done in p.done],
        current=[values for p in products for values in p.current],
        crowded=[lineage for p in products for lineage in p.crowded],
        ledger=[p.ledger for p in products],
        keys={key: kind for p in products for key, kind in p.keys.items()},
        newcomers=plan.newcomers,
        findings=_joined(p.findings for p in products),
        staged=[found for p in products for found in p.staged],
        released=list(plan.released),
        reviews=[review for p in products for review in p.reviews],
        shelved=[schema for p in products for schema in p.shelved],
        accepted=[schema for p in products for schema in p.accepted],
        resumed=[lineage for p in products for lineage in p.resumed],
        resets=list(plan.resets),
        pauses=[paused for p in products for paused in p.pauses],
        rejections=[rejected for p in products for rejected in p.rejections],
        replayed=[outcomes for p in products for outcomes in p.replayed],
        sequences=[change for p in products for change in p.sequences],
        rejected=[numbers for p in products for numbers in p.rejected],
    )


def integrity_of(seal: Seal, *, received: int) -> IntegrityReport:
    """Judge a drain by what its tasks found."""
    findings = seal.findings
    return IntegrityReport(
        received,
        findings.messages,
        findings.unbalanced,
        findings.repeated_keys,
        findings.rule_breaches,
        findings.repeated_samples,
        findings.repeated_points,
    )


def _joined(findings: Iterable[Findings]) -> Findings:
    joined = Findings()
    for found in findings:
        joined.messages += found.messages
        joined.unbalanced += found.unbalanced
        joined.repeated_keys += found.repeated_keys
        joined.repeated_samples += found.repeated_samples
        for table, ids in found.repeated_points.items():
            joined.repeated_points[table] = joined.repeated_points.get(table, []) + ids
        for rule, count in found.rule_breaches.items():
            joined.rule_breaches[rule] = joined.rule_breaches.get(rule, 0) + count
        for reason, count in found.quarantined.items():
            joined.quarantined[reason] = joined.quarantined.get(reason, 0) + count
        joined.out_of_window += found.out_of_window
    return joined


def encode_seal(seal: Seal) -> bytes:
    """A seal as it is stored."""
    return zstandard.ZstdCompressor(level=1).compress(msgspec.msgpack.encode(seal))


def decode_seal(body: bytes) -> Seal:
    """A seal as it was stored."""
    return msgspec.msgpack.decode(zstandard.ZstdDecompressor().decompress(body), type=Seal)
