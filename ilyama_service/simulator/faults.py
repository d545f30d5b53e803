"""How a bad firmware spoils a row batch, with the code it must then be rejected with."""

import random
from typing import Any, Final

from ilyama_protocol.rejections import RejectionCode
from ilyama_service.simulator.mutations import BROKEN_TEXTS, ROWS
from ilyama_service.simulator.spelling import compact

CODES: Final = (RejectionCode.INVALID_JSON, *map(RejectionCode, ROWS))
"""What a row batch can be rejected with for what it says, whoever sends it."""


def spoiled(
    document: dict[str, Any], chance: random.Random, code: RejectionCode | None = None
) -> tuple[bytes, RejectionCode]:
    """A sound batch made bad, and the code of what is wrong with it; any code without one."""
    chosen = code or chance.choice(CODES)
    if chosen is RejectionCode.INVALID_JSON:
        return chance.choice(BROKEN_TEXTS)(compact(document).encode()), chosen
    chance.choice(ROWS[chosen])(document, chance)
    return compact(document).encode(), chosen
