"""The rules that a drain goes by, pinned when it is planned."""

from __future__ import annotations

from collections.abc import Collection

from ilyama_assets.drains.orders import DeviceOrder
from ilyama_protocol.governance.policies import Policy
from ilyama_protocol.governance.rules import DeviceRules, ProjectRules
from ilyama_resources.postgres import Transaction
from ilyama_resources.postgres.governance.pinned_rules import pinned_rules


def pin_rules(
    tx: Transaction, devices: Collection[DeviceOrder], default: Policy
) -> dict[str, ProjectRules]:
    """Give each device the rules for it alone, and tell those of all their projects."""
    known = [device.device_id for device in devices if device.device_id is not None]
    pinned = pinned_rules(tx, known, default)
    for device in devices:
        device.rules = pinned.devices.get(device.device_id or "", DeviceRules())
    return pinned.projects
