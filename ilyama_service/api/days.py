"""Days in queries: the ISO form and nothing else."""

import re
from datetime import date
from typing import Annotated

from pydantic import BeforeValidator, Field

_ISO_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


def _iso_day(given: object) -> object:
    if isinstance(given, str) and _ISO_DAY.fullmatch(given) is None:
        raise ValueError("a day looks like 2026-04-28")
    return given


ArrivalDay = Annotated[
    date, BeforeValidator(_iso_day), Field(description="A UTC day on which messages arrived.")
]
