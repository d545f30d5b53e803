"""Tables that are derived after drains, as a person names them."""

from enum import StrEnum


class Derived(StrEnum):
    """A derived table that `ilyama drain` brings up to date."""

    CURRENT_VALUE = "current_value"
    DEVICE_TABLES = "device_tables"
