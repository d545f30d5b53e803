"""Waits for drains: whoever compares tables looks again when one has been finished."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from ilyama_resources.delta.reading import table_version
from ilyama_resources.postgres import Gateway

LEDGER: Final = "batch_ledger"
_POLL_S: Final = 0.5

Progress = tuple[int | None, int]
"""The version of the ledger, and the last drain that is done."""


class DrainWatch:
    """Sees how far the platform has come."""

    def __init__(self, warehouse: Path, gateway: Gateway) -> None:
        self._warehouse = warehouse
        self._gateway = gateway

    def progress(self) -> Progress:
        """How far it is now."""
        with self._gateway.transaction() as tx:
            last_drain = tx.drains.last_done_id()
        return table_version(self._warehouse, LEDGER), last_drain

    def awaited(self, seen: Progress, deadline: float) -> bool:
        """Wait until it has come further than was seen; False when the time is over before."""
        while time.monotonic() < deadline:
            if self.progress() != seen:
                return True
            time.sleep(_POLL_S)
        return False
