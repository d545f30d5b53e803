"""The composition root: the one code location that `workspace.yaml` loads."""

from __future__ import annotations

from dagster import Definitions, in_process_executor

from ilyama_assets.checks.serving import SERVING_CHECKS
from ilyama_assets.checks.tables import TABLE_CHECKS
from ilyama_assets.compaction import compaction
from ilyama_assets.current_value import current_value
from ilyama_assets.intake import intake
from ilyama_assets.jobs import JOBS
from ilyama_assets.sources import SOURCES
from ilyama_resources.lake import DeltaLake
from ilyama_resources.postgres.resource import Records
from ilyama_resources.spark import Spark
from sensors.landed_segments import landed_segments

_records = Records()

defs = Definitions(
    assets=[*SOURCES, intake, current_value, compaction],
    asset_checks=[*TABLE_CHECKS, *SERVING_CHECKS],
    jobs=JOBS,
    sensors=[landed_segments],
    resources={"records": _records, "lake": DeltaLake(records=_records), "spark": Spark()},
    executor=in_process_executor,
)
