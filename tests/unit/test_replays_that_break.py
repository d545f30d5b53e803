"""A replay that breaks the engine tells what became of it when its message is released."""

from pathlib import Path
from typing import Any

import pytest

from ilyama_assets.drains.orders import DeviceOrder, Products, WorkOrder
from ilyama_assets.drains.rejecting import OUTCOMES_SCHEMA, REJECTIONS_SCHEMA, decoded
from ilyama_assets.drains.task import carry_out
from ilyama_assets.tables import STAGED_ROWS
from ilyama_protocol.intake.outcomes import Message, Origin
from ilyama_resources.build import LOADED_BUILD
from ilyama_resources.delta.staged_files import StagedFile
from ilyama_resources.landing.directory import Landing
from tests.unit.intake.traffic import DEVICE_ID, NOW, TOPIC, batch, change

REJECTION = "0193a0e0-0000-8000-8000-000000000001"
SEGMENT = "019693d0-0000-7000-8000-0000000000aa"


def _order(folder: Path, device: DeviceOrder, **told: Any) -> WorkOrder:
    return WorkOrder(
        number=0,
        drain_id=2,
        attempt=1,
        build=LOADED_BUILD,
        warehouse=str(folder / "warehouse"),
        payload_max_bytes=1_000_000,
        batch_max_rows=1_000,
        served_instances=1_000,
        devices=[device],
        **told,
    )


def _outcomes(products: Products) -> list[tuple[str, str | None]]:
    rows = decoded(products.replayed, OUTCOMES_SCHEMA).to_pylist()
    return [(row["outcome"], row["code"]) for row in rows]


@pytest.mark.parametrize(
    ("device_id", "code"),
    [(DEVICE_ID, "unsupported_format_version"), (None, "unregistered_device")],
    ids=["known", "unknown"],
)
def test_the_release_of_a_broken_replay_settles_its_own_rejection(
    tmp_path: Path, device_id: str | None, code: str
) -> None:
    payload = batch(change(1))
    if device_id is not None:
        payload = payload.replace(b'"format_version":1', b'"format_version":9')
    replay = Message(SEGMENT, 0, TOPIC, payload, NOW, rejection_id=REJECTION)
    Landing(tmp_path / "landing").write(SEGMENT, [replay], origin=Origin.REJECTION)
    (path,) = (tmp_path / "landing").rglob(f"{SEGMENT}*")

    sender = DeviceOrder(device_id, [TOPIC], "1")
    order = _order(
        tmp_path, sender, segments=[str(path)], origin=Origin.REJECTION, poison="error:format"
    )
    broken = carry_out(order)
    assert _outcomes(broken) == [("staged", None)]

    (staged,) = (file for file in broken.files if file.table == STAGED_ROWS.name)
    place = StagedFile(str(tmp_path / "warehouse" / STAGED_ROWS.name / staged.path))
    assert [found.device_id for found in broken.staged] == [device_id or ""]
    sender = DeviceOrder(device_id, [], "1", released=broken.staged)
    order = _order(tmp_path, sender, segments=[], origin=Origin.STAGED, staged_files=[place])
    released = carry_out(order)
    assert _outcomes(released) == [("rejected", code)]
    (again,) = decoded(released.rejections, REJECTIONS_SCHEMA).to_pylist()
    assert again["rejection_id"] == REJECTION
