"""Waits for drains that derived assets have not taken up yet."""

from dagster import AssetSelection, AutomationConditionSensorDefinition, DefaultSensorStatus

new_drains = AutomationConditionSensorDefinition(
    name="new_drains",
    target=AssetSelection.groups("serving"),
    minimum_interval_seconds=60,
    default_status=DefaultSensorStatus.RUNNING,
    description="Brings derived assets up to date, at most every minute, while checks hold.",
)
