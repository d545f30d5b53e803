"""Work orders for segments that no drain has taken, as a drain would give them to its tasks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ilyama_assets.drains.orders import WorkOrder, spread
from ilyama_assets.drains.planning import Plan, plan_drain
from ilyama_assets.drains.protocol import Intake
from ilyama_resources.build import LOADED_BUILD


def work_orders(
    intake: Intake, segments: Sequence[Path], *, drain_id: int, tasks: int
) -> tuple[Plan, list[WorkOrder]]:
    """Who sent the messages of segments, and an order for each of the tasks."""
    settings = intake.settings
    plan = plan_drain(intake.gateway, segments, auto_register=True, policy=settings.policy)
    orders = [
        WorkOrder(
            number=number,
            drain_id=drain_id,
            attempt=1,
            build=LOADED_BUILD,
            segments=[str(path) for path in segments],
            warehouse=str(intake.warehouse.root),
            payload_max_bytes=settings.payload_max_bytes,
            batch_max_rows=settings.batch_max_rows,
            served_instances=settings.served_instances,
            devices=devices,
            projects=dict(plan.projects),
        )
        for number, devices in enumerate(spread(plan.devices, tasks))
    ]
    return plan, orders
