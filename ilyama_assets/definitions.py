"""The composition root: the one code location that `workspace.yaml` loads."""

from __future__ import annotations

from dagster import Definitions, in_process_executor

from ilyama_assets.checks.accounts import ACCOUNT_CHECKS
from ilyama_assets.checks.mirrors import MIRROR_CHECKS
from ilyama_assets.checks.records import RECORD_CHECKS
from ilyama_assets.checks.registries import REGISTRY_CHECKS
from ilyama_assets.checks.serving import SERVING_CHECKS
from ilyama_assets.checks.tables import TABLE_CHECKS
from ilyama_assets.checks.waiting import WAITING_CHECKS
from ilyama_assets.compaction import compaction
from ilyama_assets.current_value import current_value
from ilyama_assets.device_tables import device_tables
from ilyama_assets.intake import intake
from ilyama_assets.jobs import JOBS
from ilyama_assets.sequence_gaps import sequence_gaps
from ilyama_assets.sources import SOURCES
from ilyama_resources.lake import DeltaLake
from ilyama_resources.mqtt.resource import Broker
from ilyama_resources.postgres.resource import Records
from ilyama_resources.spark.resource import Spark
from sensors.automation import automation
from sensors.failed_checks import failed_checks
from sensors.failed_runs import failed_runs
from sensors.mqtt_ingest import mqtt_ingest
from sensors.old_runs import old_runs

_records = Records()

defs = Definitions(
    assets=[*SOURCES, intake, device_tables, current_value, sequence_gaps, compaction],
    asset_checks=[
        *TABLE_CHECKS,
        *ACCOUNT_CHECKS,
        *RECORD_CHECKS,
        *REGISTRY_CHECKS,
        *SERVING_CHECKS,
        *MIRROR_CHECKS,
        *WAITING_CHECKS,
    ],
    jobs=JOBS,
    sensors=[mqtt_ingest, automation, failed_runs, failed_checks, old_runs],
    resources={
        "records": _records,
        "lake": DeltaLake(records=_records),
        "spark": Spark(),
        "broker": Broker(),
    },
    executor=in_process_executor,
)
