"""The firmware of a device: what the registry says, until the device says something else."""

import pytest

from ilyama_protocol.intake.engine import Device, IntakeEngine
from ilyama_protocol.intake.outcomes import Origin
from ilyama_protocol.intake.state import DeviceState
from ilyama_protocol.names import UNKNOWN_FIRMWARE, known_firmware
from tests.unit.intake.traffic import DEVICE_ID, batch, change, message


def _engine(origin: Origin = Origin.LIVE) -> IntakeEngine:
    return IntakeEngine(Device(DEVICE_ID, "1.0"), DeviceState(), origin=origin)


def _decided(engine: IntakeEngine, *told: str | None) -> list[str]:
    """The firmware of messages that told these versions, or none."""
    for position, version in enumerate(told):
        body = batch(change(position + 1))
        if version is None:
            engine.decide(message(body, position=position))
        else:
            engine.decide(message(body, position=position, firmware_version=version))
    return [arrival.firmware_version for arrival in engine.decisions.outcomes.arrivals]


def test_what_a_device_tells_counts_from_then_on() -> None:
    engine = _engine()
    assert _decided(engine, None, "1.1", None) == ["1.0", "1.1", "1.1"]
    assert engine.learnt_firmware == "1.1"


@pytest.mark.parametrize("told", [(), ("1.0",), ("1.1", "1.0")])
def test_what_the_registry_knows_already_is_not_learnt(told: tuple[str, ...]) -> None:
    engine = _engine()
    _decided(engine, *told)
    assert engine.learnt_firmware is None


def test_a_replayed_message_tells_of_its_own_time_only() -> None:
    engine = _engine(Origin.REJECTION)
    assert _decided(engine, "0.9", None) == ["0.9", "1.0"]
    assert engine.learnt_firmware is None


@pytest.mark.parametrize(
    "told", ["", "x" * 513, "1.\0"], ids=["nothing", "too long", "not storable"]
)
def test_what_nobody_could_register_is_not_told_at_all(told: str) -> None:
    engine = _engine()
    assert _decided(engine, told, None) == ["1.0", "1.0"]
    assert engine.learnt_firmware is None


@pytest.mark.parametrize("known", [None, "", "x" * 513])
def test_what_the_registry_should_not_have_learnt_is_unknown(known: str | None) -> None:
    assert known_firmware(known) == UNKNOWN_FIRMWARE
    assert known_firmware("x" * 512) == "x" * 512
