"""All devices of a plan, and the one order in which they speak."""

import random
from collections.abc import Iterator
from hashlib import sha256

import msgspec

from ilyama_service.simulator.device import SimulatedDevice
from ilyama_service.simulator.messages import Behaviour, Draft, Sent, SimulatedMessage
from ilyama_service.simulator.plan import PROBER, FleetPlan
from ilyama_service.simulator.source_tables import STATION, Probe


class Fleet:
    """Makes the messages of a plan."""

    def __init__(self, plan: FleetPlan) -> None:
        self._plan = plan
        self._chance = random.Random(f"{plan.identity}/order")
        sound = msgspec.structs.replace(
            plan, seed=plan.identity, misbehave=0, rows_per_batch=1, telemetry=0
        )
        self._prober = SimulatedDevice(sound, PROBER, (Probe,))

    def messages(self) -> Iterator[SimulatedMessage]:
        """The messages of the fleet, without end."""
        number = 0
        for device in self._speakers():
            for draft in device.next(self._plan.moment_ms(number)):
                if self._plan.probe_every and number % self._plan.probe_every == 0:
                    yield self._probe(number)
                    number += 1
                yield self._message(number, device.number, draft)
                number += 1

    def _speakers(self) -> Iterator[SimulatedDevice]:
        devices = [
            SimulatedDevice(self._plan, number, STATION)
            for number in range(1, self._plan.devices + 1)
        ]
        while True:
            self._chance.shuffle(devices)
            yield from devices

    def _probe(self, number: int) -> SimulatedMessage:
        [draft] = self._prober.next(self._plan.moment_ms(number))
        marked = msgspec.structs.replace(draft, behaviour=Behaviour.PROBE)
        return self._message(number, PROBER, marked)

    def _message(self, number: int, device: int, draft: Draft) -> SimulatedMessage:
        sent = Sent(
            number=number,
            device=device,
            topic=self._plan.topic(device, draft.path),
            behaviour=draft.behaviour,
            batch_id=draft.batch_id,
            sha256=sha256(draft.payload).hexdigest(),
            source_table=draft.source_table,
            journal_epoch=draft.journal_epoch,
            rows=draft.rows,
            code=draft.code,
            samples=draft.samples,
        )
        return SimulatedMessage(sent, draft.payload)
