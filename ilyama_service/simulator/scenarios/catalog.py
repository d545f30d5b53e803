"""The list of all scenarios.

Errors:
    UnknownScenario   there is no scenario of that name
"""

from collections import Counter
from collections.abc import Callable
from typing import Final

import msgspec

from ilyama_resources.errors import PlatformError
from ilyama_service.simulator.scenarios.addresses import ADDRESSES
from ilyama_service.simulator.scenarios.contents import CONTENTS
from ilyama_service.simulator.scenarios.controls import CONTROLS
from ilyama_service.simulator.scenarios.deliveries import DELIVERIES
from ilyama_service.simulator.scenarios.refusals import REFUSALS, SPOILED
from ilyama_service.simulator.scenarios.schemas import SCHEMAS
from ilyama_service.simulator.scenarios.script import Script, Step
from ilyama_service.simulator.scenarios.telemetry import TELEMETRY_SCENARIOS
from ilyama_service.simulator.scenarios.telemetry_schemas import TELEMETRY_SCHEMAS

Play = Callable[[Script], None]


class UnknownScenario(PlatformError):
    """There is no scenario of that name."""


class Scenario(msgspec.Struct, frozen=True):
    """One way to misbehave: its name, a line about it, and how a device plays it."""

    name: str
    line: str
    play: Play

    def steps(self, seed: str = "listed") -> list[Step]:
        """The messages of a device that plays it."""
        return self.played_by(Script(seed))

    def played_by(self, device: Script) -> list[Step]:
        """The messages of a device that plays it."""
        self.play(device)
        return device.steps

    def ends(self) -> str:
        """What must come of its messages, in a few words."""
        device = Script("listed")
        counts = Counter(step.expected.told for step in self.played_by(device))
        if device.missing:
            counts["gaps" if len(device.missing) > 1 else "gap"] = len(device.missing)
        return ", ".join(f"{count} {end}" for end, count in counts.items())


def find_scenario(name: str) -> Scenario:
    """The scenario of a name.

    Raises:
        UnknownScenario: there is none.
    """
    if name not in SCENARIOS:
        raise UnknownScenario(f"there is no scenario {name!r}; `ilyama simulate --list` has all.")
    return SCENARIOS[name]


def _told(play: Play) -> Scenario:
    return Scenario(play.__name__, (play.__doc__ or "").strip(), play)


def _of_code(code: str, play: Play) -> Scenario:
    line = f"Messages of every kind are spoiled in every way that gets {code}."
    return Scenario(code, line, play)


_PLAYS: Final = (
    *(DELIVERIES, CONTENTS, ADDRESSES, SCHEMAS, TELEMETRY_SCENARIOS, TELEMETRY_SCHEMAS),
    *(CONTROLS, REFUSALS),
)
SCENARIOS: Final = {
    scenario.name: scenario
    for scenario in (
        *(_told(play) for plays in _PLAYS for play in plays),
        *(_of_code(code.value, play) for code, play in SPOILED.items()),
    )
}
