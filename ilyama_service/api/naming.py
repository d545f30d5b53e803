"""Names of parameters and members that were called otherwise before."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from pydantic import BaseModel, model_validator

OLD_TABLE: Final = {"source_table": "table"}
OLD_LINEAGE: Final = {"device_id": "device", **OLD_TABLE}


class Renamed(BaseModel):
    """What a request tells, under the names of today or those of before."""

    old_names: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _under_names_of_today(cls, told: Any) -> Any:
        if not isinstance(told, dict):
            return told
        for old, new in cls.old_names.items():
            if old in told and new in told:
                raise ValueError(f"`{old}` is the old name of `{new}`: give only one of them")
        return {cls.old_names.get(name, name): value for name, value in told.items()}
