"""Partitions: the UTC days on which messages arrived.

They are added as days are met, not counted from a start date: captured traffic may be years old,
and a day without messages is no gap.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from dagster import DagsterInstance, DynamicPartitionsDefinition

ARRIVAL_DAYS = DynamicPartitionsDefinition(name="arrival_day")


def ensure_days(instance: DagsterInstance, days: Iterable[date]) -> None:
    """Make days known as partitions."""
    name = ARRIVAL_DAYS.name or ""
    known = set(instance.get_dynamic_partitions(name))
    missing = sorted({day.isoformat() for day in days} - known)
    if missing:
        instance.add_dynamic_partitions(name, missing)
