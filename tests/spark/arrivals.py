"""Messages that land on a platform without a broker or a file of captured traffic."""

from collections.abc import Sequence

from ilyama_assets.drains.protocol import DrainReport, Intake
from ilyama_protocol.intake.outcomes import Message
from ilyama_resources.landing.directory import register
from ilyama_resources.landing.segment_ids import SegmentIds
from tests.unit.intake.traffic import NOW

Payloads = Sequence[tuple[str, bytes]]
"""(device_id, batch), in order of arrival."""


def drained(
    intake: Intake, *segments: Payloads, path: str = "sync/rows/batch"
) -> list[DrainReport]:
    """Land segments and drain everything that waits."""
    ids = SegmentIds.fresh()
    for number, payloads in enumerate(segments):
        messages = [
            Message("", 0, f"{device_id}/{path}", payload, NOW) for device_id, payload in payloads
        ]
        register(intake.gateway, [intake.landing.write(ids[number], messages)])
    reports = []
    with intake.alone():
        while (report := intake.drain()) is not None:
            reports.append(report)
    return reports


def drained_telemetry(intake: Intake, *segments: Payloads) -> list[DrainReport]:
    """Land segments of telemetry and drain everything that waits."""
    return drained(intake, *segments, path="sync/telemetry/batch")
