"""What comes from outside, so that the lineage graph starts at the device."""

from __future__ import annotations

from dagster import AssetKey, AssetSpec

from ilyama_assets.catalog import OWNERS

ROW_TOPIC = AssetKey(["mqtt", "sync_rows_batch"])
TELEMETRY_TOPIC = AssetKey(["mqtt", "sync_telemetry_batch"])
OTHER_TOPICS = AssetKey(["mqtt", "other_inbound_topics"])
HTTP_INGEST = AssetKey(["cloudevents", "http_ingest"])
IMPORTS = AssetKey(["cloudevents", "imports"])
DEVICE_REGISTRY = AssetKey(["postgres", "device"])
REPLAYS = AssetKey(["postgres", "rejection_replay"])
GOVERNANCE = AssetKey(["postgres", "schema_review"])

SOURCES = [
    AssetSpec(
        ROW_TOPIC,
        description=(
            "Row batches that devices publish over MQTT on `{slug}/{device}/sync/rows/batch`; "
            "the sensor `mqtt_ingest` lands them."
        ),
        group_name="sources",
        kinds={"mqtt"},
        owners=OWNERS,
    ),
    AssetSpec(
        TELEMETRY_TOPIC,
        description=(
            "Telemetry batches that devices publish over MQTT on "
            "`{slug}/{device}/sync/telemetry/batch`; the sensor `mqtt_ingest` lands them."
        ),
        group_name="sources",
        kinds={"mqtt"},
        owners=OWNERS,
    ),
    AssetSpec(
        OTHER_TOPICS,
        description=(
            "What devices publish over MQTT beside batches: schema observations, acknowledgements "
            "and requests under `{slug}/{device}/sync/`, and everything under `devices/`."
        ),
        group_name="sources",
        kinds={"mqtt"},
        owners=OWNERS,
    ),
    AssetSpec(
        HTTP_INGEST,
        description="Messages that devices and gateways post as CloudEvents to `/v1/ingest`.",
        group_name="sources",
        kinds={"http", "json"},
        owners=OWNERS,
    ),
    AssetSpec(
        IMPORTS,
        description="Captured traffic as CloudEvents in JSON lines, landed by `ilyama import`.",
        group_name="sources",
        kinds={"json"},
        owners=OWNERS,
    ),
    AssetSpec(
        DEVICE_REGISTRY,
        description="The registry that maps a topic root to a device.",
        group_name="sources",
        kinds={"postgres"},
        owners=OWNERS,
    ),
    AssetSpec(
        REPLAYS,
        description=(
            "Rejections that people let be decided again, as they were or with corrected bytes: "
            "`ilyama rejections replay`, `POST /v1/rejections/replay`. They land as segments."
        ),
        group_name="sources",
        kinds={"postgres"},
        owners=OWNERS,
    ),
    AssetSpec(
        GOVERNANCE,
        description=(
            "What people and policies decided about schemas: reviews, approvals with what becomes "
            "of each column, policies. Rows of a schema that waits are staged."
        ),
        group_name="sources",
        kinds={"postgres"},
        owners=OWNERS,
    ),
]
SOURCE_KEYS = [spec.key for spec in SOURCES if spec.key != GOVERNANCE]
