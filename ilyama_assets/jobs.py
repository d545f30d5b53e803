"""Jobs: which assets and checks one run works on."""

from __future__ import annotations

from dagster import AssetSelection, define_asset_job, in_process_executor

from ilyama_assets.checks.intake import INTAKE_CHECKS
from ilyama_assets.compaction import compaction
from ilyama_assets.device_tables import device_tables
from ilyama_assets.tables import CURRENT_VALUE, INTAKE_TABLES, SEQUENCE_GAPS

_TABLES = [contract.name for contract in INTAKE_TABLES]
_INTAKE = AssetSelection.assets(*_TABLES)
_ON_WRITE = AssetSelection.checks(*(spec.key for spec in INTAKE_CHECKS))

DRAIN_ONLY = {"ops": {"intake": {"config": {"replay_when_idle": False}}}}
"""The configuration of an intake run that was not started by hand."""

intake_job = define_asset_job(
    "intake_job",
    selection=_INTAKE.without_checks() | _ON_WRITE,
    executor_def=in_process_executor,
    description="Drain what landed on a day; started by hand with nothing waiting, replay it.",
)

serving_job = define_asset_job(
    "serving_job",
    selection=AssetSelection.assets(CURRENT_VALUE.name, SEQUENCE_GAPS.name),
    executor_def=in_process_executor,
    description="Bring current values and gaps in Delta up to the newest drain, and check them.",
)

device_tables_job = define_asset_job(
    "device_tables_job",
    selection=AssetSelection.assets(device_tables).without_checks(),
    executor_def=in_process_executor,
    description="Bring the device tables up to the newest drain.",
)

verification_job = define_asset_job(
    "verification_job",
    selection=AssetSelection.checks_for_assets(*_TABLES, device_tables) - _ON_WRITE,
    executor_def=in_process_executor,
    description="Verify what intake tables and device tables promise, on what they hold.",
)

compaction_job = define_asset_job(
    "compaction_job",
    selection=AssetSelection.assets(compaction),
    executor_def=in_process_executor,
    description="Rewrite the small files of each day into few.",
)

JOBS = [intake_job, serving_job, device_tables_job, verification_job, compaction_job]
