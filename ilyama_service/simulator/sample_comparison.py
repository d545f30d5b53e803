"""Compares the telemetry of a run with `telemetry_samples`."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from ilyama_service.simulator.expectations import Expectations
from ilyama_service.simulator.reports import EXAMPLES, SampleFindings

SAMPLE_COLUMNS: Final = ("device_id", "batch_id")


def compare_samples(
    expected: Expectations, stored: Iterable[pa.RecordBatch]
) -> tuple[SampleFindings, list[str]]:
    """Samples that are lost or doubled, with some examples."""
    found: Counter[tuple[str, str]] = Counter()
    for batch in stored:
        columns = (batch[name].to_pylist() for name in SAMPLE_COLUMNS)
        found.update(zip(*columns, strict=True))
    findings, examples = SampleFindings(), []
    for place, (samples, message) in expected.samples.items():
        acknowledged = bool(expected.acknowledged[message])
        findings.expected += samples if acknowledged else 0
        findings.visible += min(found[place], samples)
        lost = max(samples - found[place], 0) if acknowledged else 0
        doubled = max(found[place] - samples, 0)
        findings.lost += lost
        findings.doubled += doubled
        if lost or doubled:
            examples.append(f"batch {place[1]} of {place[0]} has {found[place]} of {samples} rows")
    return findings, examples[:EXAMPLES]
