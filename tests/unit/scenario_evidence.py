"""What the platform in memory holds of the devices of a scenario."""

from collections.abc import Iterable

from paho.mqtt.client import topic_matches_sub

from ilyama_protocol.intake.sequences import SequenceKind
from ilyama_protocol.topics import INBOUND_FILTERS
from ilyama_service.simulator.scenarios.findings import Evidence
from ilyama_service.simulator.scenarios.script import Missing, Step
from tests.memory_platform import MemoryPlatform


def evidence_of(platform: MemoryPlatform) -> Evidence:
    """Its tables and gaps, as a scenario is compared with them."""
    tables = platform.tables
    gaps = [
        Missing(SequenceKind(gap["kind"]), gap["first_missing"], gap["last_missing"])
        for gap in platform.gaps()
    ]
    changes = [*tables["row_changes"], *tables["staged_rows"]]
    return Evidence(tables["batch_ledger"], changes, tables["key_conflicts"], gaps)


def heard(steps: Iterable[Step]) -> list[Step]:
    """What the platform listens to."""
    return [
        step
        for step in steps
        if any(topic_matches_sub(wanted, step.topic) for wanted in INBOUND_FILTERS)
    ]
