"""How often a part of a stack is started that dies young."""

import time
from typing import Final

from ilyama_resources.settings import Settings, private_directory

STARTS_APART_S: Final = 5.0


def wait_for_turn(settings: Settings, part: str) -> None:
    """Wait until the part's last start is long enough ago, then note this one.

    The supervisor itself would wait a second longer after every failed start, without end: after
    a night without Postgres, minutes. A process that has waited here counts as started.
    """
    note = private_directory(settings.run) / f"{part}.started"
    ago = time.time() - note.stat().st_mtime if note.exists() else STARTS_APART_S
    if 0 <= ago < STARTS_APART_S:
        time.sleep(STARTS_APART_S - ago)
    note.touch(mode=0o600)
