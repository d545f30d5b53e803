"""Waits until the conditions of assets and checks hold that bring themselves up to date."""

from dagster import AssetSelection, AutomationConditionSensorDefinition, DefaultSensorStatus

automation = AutomationConditionSensorDefinition(
    name="automation",
    target=AssetSelection.all() | AssetSelection.all_asset_checks(),
    minimum_interval_seconds=60,
    default_status=DefaultSensorStatus.RUNNING,
    description=(
        "Derives assets from new drains, compacts tables and verifies them; looks every minute."
    ),
)
