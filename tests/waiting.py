"""Waiting for a condition, with a deadline."""

import time
from collections.abc import Callable


def eventually(
    condition: Callable[[], bool], *, within_s: float = 60, every_s: float = 0.02
) -> bool:
    """Tell whether `condition` comes true in time."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(every_s)
    return True
