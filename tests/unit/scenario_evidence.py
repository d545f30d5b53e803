"""What the platform in memory holds of the devices of a scenario."""

from ilyama_protocol.intake.sequences import SequenceKind
from ilyama_service.simulator.scenarios.findings import Evidence
from ilyama_service.simulator.scenarios.script import Missing
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
