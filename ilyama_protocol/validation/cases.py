"""Cases: a message under examination, and what the checks have learnt of it so far."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ilyama_protocol.fingerprint import SchemaColumn
from ilyama_protocol.limits import Limits
from ilyama_protocol.topics import MessageKind


class Fault(NamedTuple):
    """The first offending place of a check, and a sentence about it."""

    json_path: str
    message: str

    def below(self, path: str) -> "Fault":
        """Return a fault of a part, whose sentence lacks its subject, as one of the whole."""
        place = f"{path}{self.json_path}"
        return Fault(place, f"{place.removeprefix('$.')} {self.message}")


@dataclass(slots=True)
class Case:
    """One message under examination.

    Attributes:
        kind: What the topic says it is, None when the topic is not an inbound one.
        payload: Its bytes.
        registered: Whether the registry knows the device.
        limits: The deployment's limits.
        topic: Where it was published, when that is known.
        document: The parsed payload, from check 2 on.
        schema_columns: The columns it declares, from check 12 on.
        instants: The exact times of telemetry rows in nanoseconds, from check 16 on.
    """

    kind: MessageKind | None
    payload: bytes
    registered: bool
    limits: Limits
    topic: str | None = None
    document: dict[str, Any] = field(default_factory=dict)
    schema_columns: tuple[SchemaColumn, ...] | None = None
    instants: list[int] = field(default_factory=list)

    @property
    def rows(self) -> list[Any]:
        """The rows of a batch, from check 10 on."""
        rows: list[Any] = self.document["rows"]
        return rows
