"""Who sent the messages of a drain, where ids of their own could be taken for other topics."""

from __future__ import annotations

from uuid import uuid4

from ilyama_assets.drains.planning import Plan, plan_drain
from ilyama_protocol.intake.outcomes import Message
from ilyama_resources.landing.segment_files import write_segment
from ilyama_resources.postgres.devices import RegisteredDevice
from tests.platform import Platform
from tests.unit.intake.traffic import NOW

STRANGER, BY_ID, BY_ROOT = "/pump-1/sync/rows/batch", "devices/pump-1/telemetry", "acme/dev-7"
KNOWN = RegisteredDevice("pump-1", "acme", "dev-7", None)


def _known(platform: Platform, *devices: RegisteredDevice) -> None:
    with platform.gateway.transaction() as tx:
        tx.devices.register(devices, auto=False)
        tx.commit()


def _planned(platform: Platform, *topics: str) -> Plan:
    path = platform.settings.home / f"{uuid4()}.parquet"
    sent = [Message(path.stem, place, topic, b"", NOW) for place, topic in enumerate(topics)]
    write_segment(path, sent)
    policy = platform.settings.policy
    return plan_drain(platform.gateway, [path], auto_register=True, policy=policy)


def _topics(plan: Plan) -> dict[str | None, list[str]]:
    return {order.device_id: sorted(order.topics) for order in plan.devices}


def test_a_stranger_does_not_get_the_id_of_another_device(
    platform_without_spark: Platform,
) -> None:
    platform, rows = platform_without_spark, f"{BY_ROOT}/sync/rows/batch"
    _known(platform, KNOWN)
    plan = _planned(platform, STRANGER, BY_ID, rows)
    assert _topics(plan) == {None: [STRANGER], "pump-1": [rows, BY_ID]}
    assert plan.newcomers == []


def test_topics_under_a_root_are_of_its_device_whoever_is_named_by_id_beside_them(
    platform_without_spark: Platform,
) -> None:
    platform = platform_without_spark
    _known(platform, RegisteredDevice("x1", "", "pump-1", None), KNOWN)
    assert _topics(_planned(platform, STRANGER)) == {"x1": [STRANGER]}
    both = _topics(_planned(platform, STRANGER, BY_ID))
    assert both == {"x1": [STRANGER], "pump-1": [BY_ID]}


def test_a_newcomer_is_met_once_by_its_root_and_its_id(platform_without_spark: Platform) -> None:
    plan = _planned(platform_without_spark, STRANGER, BY_ID)
    assert _topics(plan) == {"pump-1": [STRANGER, BY_ID]}
    assert plan.newcomers == [RegisteredDevice("pump-1", "", "pump-1", None)]
