"""Names of device tables and of their columns, safe for Delta and for directories, and reversible.

Delta does not tell upper from lower case in the names of columns and forbids some characters; a
device may name its columns as it likes. The platform's own columns begin with two underscores.
"""

from __future__ import annotations

from collections.abc import Collection

from ilyama_protocol.canonical import canonical_hash

DEVICE_COLUMN = "device_id"
OWN_PREFIX = "__"
LONGEST_NAME = 255
"""A longer column name is not mirrored; no table that people work with has one."""
EMPTY_NAME = "%"
_PLAIN_IN_COLUMNS = "_-"
_PLAIN_IN_DIRECTORIES = "_-"
_LONGEST_DIRECTORY = 200
_DOT_ABOVE = "\u0307"
"""What is left of a capital I with a dot when its case is folded; Java takes it for an i."""


def column_name(original: str, taken: Collection[str] = ()) -> str:
    """The name of a device's column in Delta; `taken` are the names of others, folded."""
    plain = _readable(original)
    return _caseless(original) if folded(plain) in taken else plain


def folded(name: str) -> str:
    """Equal for names that Spark may take for one another; now and then for others too."""
    return name.upper().casefold().replace(_DOT_ABOVE, "")


def directory_name(text: str) -> str:
    """A name of one directory that no other text has; a long one ends in its hash."""
    name = "".join(c if _is_plain_ascii(c) else _escaped(c, "~") for c in text)
    if len(name) <= _LONGEST_DIRECTORY:
        return name
    return f"{name[:100]}~~{canonical_hash(text)[:32]}"


def _readable(original: str) -> str:
    if not original:
        return EMPTY_NAME
    if folded(original) == DEVICE_COLUMN or original.startswith(OWN_PREFIX):
        return _escaped(original[0], "%") + _readable_rest(original[1:])
    return _readable_rest(original)


def _readable_rest(text: str) -> str:
    return "".join(c if c.isalnum() or c in _PLAIN_IN_COLUMNS else _escaped(c, "%") for c in text)


def _caseless(original: str) -> str:
    """The name with all letters escaped: no other name is equal to it in any case."""
    return "".join(c if c.isascii() and c.isdigit() else _escaped(c, "%") for c in original)


def _is_plain_ascii(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character in _PLAIN_IN_DIRECTORIES)


def _escaped(character: str, mark: str) -> str:
    return "".join(f"{mark}{byte:02X}" for byte in character.encode())
