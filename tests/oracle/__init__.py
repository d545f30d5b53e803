"""The right answer by the slowest, most literal reading of the rules.

The oracle shares no code with the platform: it reads one message after another in plain Python,
remembers everything, and says what every table must contain in the end.
"""

from tests.oracle.intake import Oracle
from tests.oracle.records import Event

__all__ = ["Event", "Oracle"]
