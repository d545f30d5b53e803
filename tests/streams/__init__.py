"""Seeded streams of messages: ordinary traffic with every fault, and volume without any."""

from tests.streams.bulk import generate_bulk
from tests.streams.cloudevents import write_cloudevents
from tests.streams.generator import FAULTS, generate, generate_changes

__all__ = ["FAULTS", "generate", "generate_bulk", "generate_changes", "write_cloudevents"]
