"""Decide: one Spark pass over the devices of a drain, and a second for those that asked back."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ilyama_assets.drains.errors import DrainInterrupted, ReleaseFailed, WorkerStale
from ilyama_assets.drains.lookups import HistoryLookup
from ilyama_assets.drains.orders import (
    DeviceOrder,
    Products,
    TaskFailed,
    WorkOrder,
    decode_products,
    encode,
    spread,
    with_history,
)
from ilyama_assets.drains.task import PRODUCTS_DDL, STALE_BUILD, decide_orders
from ilyama_protocol.governance.agreement import settled
from ilyama_protocol.governance.rules import ProjectRules
from ilyama_resources.delta.warehouse import Warehouse
from ilyama_resources.spark.sessions import is_connection_lost

DEVICES_PER_TASK = 4_000
"""What a task hands back lies in the memory of Spark's driver as one piece, several times over."""


class Decider:
    """Runs the intake engine over devices, on Spark."""

    def __init__(
        self, session: SparkSession, warehouse: Warehouse, template: WorkOrder, *, tasks: int
    ) -> None:
        self._session = session
        self._warehouse = warehouse
        self._template = template
        self._tasks = tasks

    def decide_in_agreement(
        self, devices: Sequence[DeviceOrder], *, apart: bool = False
    ) -> list[Products]:
        """Decide devices; where those of one project disagree, again with the first in force."""
        decider = self
        while True:
            decide = decider.decide_apart if apart else decider.decide
            products = decide(devices)
            claims = (claim for found in products for claim in found.claims)
            rules = settled(claims, decider._template.projects)
            if rules is None:
                return products
            decider = decider._under(rules)

    def _under(self, projects: dict[str, ProjectRules]) -> Decider:
        template = msgspec.structs.replace(self._template, projects=projects)
        return Decider(self._session, self._warehouse, template, tasks=self._tasks)

    def decide(self, devices: Sequence[DeviceOrder]) -> list[Products]:
        """Decide all devices together."""
        first = self._pass(devices)
        needs = [need for products in first for need in products.needs]
        if not needs:
            return first
        lookup = HistoryLookup(self._session, self._warehouse, tasks=self._tasks)
        found = lookup.look_up(needs)
        return first + self._pass(with_history(devices, found))

    def decide_apart(self, devices: Sequence[DeviceOrder]) -> list[Products]:
        """Decide half after half, down to the devices that cannot be decided; those are staged."""
        try:
            return self.decide(devices)
        except PySparkException as error:
            if is_connection_lost(error):
                raise
        if len(devices) == 1:
            return self._decide_again_or_stage(devices[0])
        half = len(devices) // 2
        return self.decide_apart(devices[:half]) + self.decide_apart(devices[half:])

    def _decide_again_or_stage(self, device: DeviceOrder) -> list[Products]:
        """A device that fails twice in a row, alone, is at fault itself."""
        try:
            return self.decide([device])
        except PySparkException as error:
            if is_connection_lost(error):
                raise
            reason = str(error).strip()[:10_000]
        return self.decide([msgspec.structs.replace(device, stage_with=reason)])

    def _pass(self, devices: Sequence[DeviceOrder]) -> list[Products]:
        orders = [
            msgspec.structs.replace(self._template, number=number, devices=group)
            for number, group in enumerate(spread(devices, self._tasks_for(devices)))
        ]
        products = self._products(orders)
        _refuse_failures([p.failure for p in products if p.failure is not None])
        return products

    def _tasks_for(self, devices: Sequence[DeviceOrder]) -> int:
        """A task for every core, and more when one would hand back more than the JVM can hold."""
        return max(self._tasks, -(-len(devices) // DEVICES_PER_TASK))

    def _products(self, orders: Sequence[WorkOrder]) -> list[Products]:
        if not orders:
            return []
        bodies = pa.table({"body": pa.array(map(encode, orders), pa.binary())})
        frame = self._session.createDataFrame(bodies).mapInArrow(decide_orders, PRODUCTS_DDL)
        return [decode_products(body.as_py()) for body in frame.toArrow()["products"]]


def _refuse_failures(failures: Sequence[TaskFailed]) -> None:
    """A release is given up for rows that are not there, not for what would pass."""
    for failure in failures:
        if failure.sentence == STALE_BUILD:
            raise WorkerStale(failure.sentence)
        if not failure.missing:
            raise DrainInterrupted(failure.sentence)
    if failures:
        missing = [found for failure in failures for found in failure.missing]
        raise ReleaseFailed(failures[0].sentence, missing)
