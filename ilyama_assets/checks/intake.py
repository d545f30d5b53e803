"""Checks that a drain has to pass before anything of it is visible.

They are evaluated on the drain's own output between deciding and sealing; a drain that fails one
is held. What is reported here is what was found then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
from ilyama_resources.delta.data_files import TableContract

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
    yield _balance(run)
    yield _repeats(run, ROW_CHANGES, ONE_ROW_PER_KEY, "key", run.repeated_keys)
    yield _repeats(run, TELEMETRY_SAMPLES, ONE_SAMPLE_PER_PLACE, "key", run.repeated_samples)
    for contract in (METRIC_DATAPOINT, STATE_DATAPOINT):
        points = run.repeated_points.get(contract.name, [])
        yield _repeats(run, contract, ONE_VALUE_PER_MOMENT, "datapoint_id", points)
        for rule in DATAPOINT_RULES:
            yield _breaches(run, contract, rule)


def _balance(run: RunReport) -> AssetCheckResult:
    """Whether every message and row was accounted for."""
    return report(
        asset=BATCH_LEDGER.name,
        check=LEDGER_BALANCE,
        passed=run.received == run.accounted and not run.unbalanced,
        counts={"messages received": run.received, "messages accounted for": run.accounted}
        | {f"rows {_WORDS.get(name, name)}": count for name, count in run.rows.items()},
        sample=[{"place": place} for place in run.unbalanced],
        advice=_HELD,
    )


def _repeats(
    run: RunReport, contract: TableContract, check: str, label: str, found: Sequence[str]
) -> AssetCheckResult:
    """Whether rows of a table share what is to be one row's."""
    return report(
        asset=contract.name,
        check=check,
        passed=not found,
        counts={"rows written": run.written[contract.name], "repeated": len(found)},
        sample=[{label: repeated} for repeated in found],
        advice=_HELD,
    )


def _breaches(run: RunReport, contract: TableContract, rule: str) -> AssetCheckResult:
    """Whether rows that break a rule were split off."""
    return report(
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
