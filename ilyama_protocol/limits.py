"""Limits of the wire contract; every one is a setting with the default given here."""

from dataclasses import dataclass

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1
MAX_DEPTH = 32
MAX_TABLE_NAME = 128


@dataclass(frozen=True, slots=True)
class Limits:
    """What a deployment may change: the size of a message, and how old a datapoint may come."""

    payload_max_bytes: int = 512 * 1024
    batch_max_rows: int = 4_096
    metric_days: int = 30
    state_days: int = 365


DEFAULT_LIMITS = Limits()
