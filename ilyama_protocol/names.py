"""Names that stand in the registry: of organizations, projects and fleets, and of firmware."""

from collections.abc import Mapping

MAX_NAME = 512
"""No such name has more code points; what is indexed by one has room for no more."""
UNKNOWN_FIRMWARE = "unknown"
_FIRMWARE = "firmware_version"


def is_text(word: str) -> bool:
    """Whether Postgres can hold it; what a terminal gave may be no UTF-8."""
    return "\0" not in word and word == word.encode(errors="ignore").decode()


def is_name(word: str) -> bool:
    """Whether an organization, project, fleet or firmware version may be called so."""
    return 0 < len(word) <= MAX_NAME and is_text(word)


def told_firmware(user_properties: Mapping[str, str]) -> str | None:
    """The firmware that a message tells; one that cannot be called so is not told at all."""
    told = user_properties.get(_FIRMWARE)
    return told if told is not None and is_name(told) else None


def known_firmware(registered: str | None) -> str:
    """The firmware that the registry knows; one that cannot be called so is unknown."""
    return registered if registered is not None and is_name(registered) else UNKNOWN_FIRMWARE
