"""Checks that a drain has to pass before anything of it is visible.

They are evaluated on the drain's own output between deciding and sealing; a drain that fails one
is held. What is reported here is what was found then.
"""

from __future__ import annotations

from collections.abc import Iterator

from dagster import AssetCheckResult, AssetCheckSpec

from ilyama_assets.checks.reports import report
from ilyama_assets.drains.running import RunReport
from ilyama_assets.tables import (
    BATCH_LEDGER,
    DATAPOINT_RULES,
    METRIC_DATAPOINT,
    ROW_CHANGES,
    STATE_DATAPOINT,
    TELEMETRY_SAMPLES,
)

LEDGER_BALANCE = "ledger_balance"
ONE_ROW_PER_KEY = "one_row_per_dedup_key"
ONE_SAMPLE_PER_PLACE = "one_sample_per_row_of_a_batch"
ONE_VALUE_PER_MOMENT = "one_value_per_moment"
_WORDS = {"conflict": "in conflict"}
_HELD = "Intake is held at this drain. `ilyama drains` shows it; nothing of it is visible yet."

INTAKE_CHECKS = [
    AssetCheckSpec(
        LEDGER_BALANCE,
        asset=BATCH_LEDGER.name,
        blocking=True,
        description="Every message and every row that a drain received is accounted for.",
    ),
    AssetCheckSpec(
        ONE_ROW_PER_KEY,
        asset=ROW_CHANGES.name,
        blocking=True,
        description="No two rows that a drain adds share a dedup key.",
    ),
    AssetCheckSpec(
        ONE_SAMPLE_PER_PLACE,
        asset=TELEMETRY_SAMPLES.name,
        blocking=True,
        description="No two samples that a drain adds are the same row of the same batch.",
    ),
    *(
        AssetCheckSpec(
            ONE_VALUE_PER_MOMENT,
            asset=contract.name,
            blocking=True,
            description="No two datapoints that a drain adds are of one series and moment.",
        )
        for contract in (METRIC_DATAPOINT, STATE_DATAPOINT)
    ),
    *(
        AssetCheckSpec(
            f"{rule}_on_write",
            asset=contract.name,
            blocking=True,
            description="Rows that break the rule were split off to quarantine before the write.",
        )
        for contract in (METRIC_DATAPOINT, STATE_DATAPOINT)
        for rule in DATAPOINT_RULES
    ),
]


def intake_check_results(run: RunReport) -> Iterator[AssetCheckResult]:
    """The reports of a run's drains."""
    yield report(
        asset=BATCH_LEDGER.name,
        check=LEDGER_BALANCE,
        passed=run.received == run.accounted and not run.unbalanced,
        counts={"messages received": run.received, "messages accounted for": run.accounted}
        | {f"rows {_WORDS.get(name, name)}": count for name, count in run.rows.items()},
        sample=[{"place": place} for place in run.unbalanced],
        advice=_HELD,
    )
    yield report(
        asset=ROW_CHANGES.name,
        check=ONE_ROW_PER_KEY,
        passed=not run.repeated_keys,
        counts={"rows written": run.written[ROW_CHANGES.name], "repeated": len(run.repeated_keys)},
        sample=[{"key": key} for key in run.repeated_keys],
        advice=_HELD,
    )
    yield report(
        asset=TELEMETRY_SAMPLES.name,
        check=ONE_SAMPLE_PER_PLACE,
        passed=not run.repeated_samples,
        counts={
            "rows written": run.written[TELEMETRY_SAMPLES.name],
            "repeated": len(run.repeated_samples),
        },
        sample=[{"key": key} for key in run.repeated_samples],
        advice=_HELD,
    )
    for contract in (METRIC_DATAPOINT, STATE_DATAPOINT):
        repeated = run.repeated_points.get(contract.name, [])
        yield report(
            asset=contract.name,
            check=ONE_VALUE_PER_MOMENT,
            passed=not repeated,
            counts={"rows written": run.written[contract.name], "repeated": len(repeated)},
            sample=[{"datapoint_id": found} for found in repeated],
            advice=_HELD,
        )
        for rule in DATAPOINT_RULES:
            yield report(
                asset=contract.name,
                check=f"{rule}_on_write",
                passed=not run.rule_breaches[rule],
                counts={
                    "rows written": run.written[contract.name],
                    "rows in breach": run.rule_breaches[rule],
                    "rows quarantined": run.quarantined[rule],
                },
                advice=_HELD,
            )
